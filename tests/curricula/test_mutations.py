"""Plants the published slips one by one and shows that the property suite catches each.

`Printed` writes the two lemmas out with the multipliers λ₁…λ₄ in the contexts' own units, as the
paper does; without a slip the suite accepts it. Each mutant differs from it by one printed formula.
The numbers are those of the errata in `docs/curricula.md`.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pytest

from pacebench import curricula
from pacebench.curricula import scaled_problem
from pacebench.curricula.spgl import Spgl
from pacebench.curricula.steps import Step
from pacebench.harness.verify import PROPERTIES, Subject, attempt
from pacebench.harness.verify.oracle import Normal, SampleStatistics

BY_NAME = {p.name: p for p in PROPERTIES}


def norm2(v, A):
    return float(v @ A @ v)


class Printed(Spgl):
    """SPGL from the printed multipliers; `slip` names the formula that is printed wrongly."""

    name = "spgl"
    slip: ClassVar[str] = ""

    def _step(self, stats, *, converge):
        p, theta, K = self.distribution, self.theta, len(stats.weights)
        values = stats.weights * stats.unit * K
        target = Normal.of(self.target)
        contexts = stats.contexts
        s = SampleStatistics.of(target, p.mean, theta, contexts, values, self.threshold)
        psi, omega = s.psi, s.omega
        if self.slip == "1 importance ratio inverted":
            # √(|Θ'|/|Θ|) has the derivative +½θ⁻¹ where −½θ⁻¹ belongs.
            psi = psi + float(values.mean()) / theta
        if self.slip == "7 sign of ln|Θ|":
            omega = omega - 1.0 / theta
        Hi = np.linalg.inv(s.H)
        e = self.epsilon
        if not converge:
            mean = _unless_zero(math.sqrt(2 * e) * s.u, math.sqrt(norm2(s.u, s.P)))
            spread = _unless_zero(2 * math.sqrt(e) * Hi @ psi, math.sqrt(norm2(psi, Hi)))
            mean_lands = theta_lands = False
        else:
            mean, mean_lands = self._mean(s)
            spread, theta_lands = self._theta(s, psi, omega, Hi, theta)
        relative = spread / theta
        whitened = relative if self.family.diagonal else relative @ self.family.root
        cases = ("free" if lands else "printed" for lands in (mean_lands, theta_lands))
        return Step(np.concatenate([p.whiten(mean), whitened]), "/".join(cases))

    def _mean(self, s):
        a, x, u, e = s.slack, s.gap, s.u, self.epsilon
        q, b, n = norm2(x, s.P), float(u @ s.P @ x), norm2(u, s.P)
        near = math.sqrt(q) >= 2 * e if self.slip == "3 free mean" else q <= 2 * e
        if near and a + b >= 0:
            return x, True
        lam2 = math.sqrt(q / (2 * e))
        if self.slip == "3 kl-only mean":
            kl_only = a / math.sqrt(2 * e) + b**2 / math.sqrt(q or 1.0) <= 0
        else:
            kl_only = lam2 > 0 and a + b / lam2 >= 0
        if q > 2 * e and kl_only:
            return x / lam2, False
        if n == 0:
            return x / max(1.0, lam2), False
        if a + b < 0 and q + (a * a - b * b) / n <= 2 * e:
            lam1, lam2 = -(a + b) / n, 1.0
        else:
            room = 2 * e * n - a * a
            lam2 = math.sqrt(max(q * n - b * b, 0.0) / room) if room > 0 else 1.0
            if self.slip == "4 λ₂ without its denominator":
                lam2 = math.sqrt(max(q * n - b * b, 0.0) / n)
            lam1 = -(a * lam2 + b) / n
            if self.slip == "4 sign in λ₁":
                lam1 = -(a * lam2 - b) / n
        if self.slip == "5 λ₂ū for λ₁ū":
            lam1 = lam2
        return (x + lam1 * u) / (lam2 or 1.0), False

    def _theta(self, s, psi, omega, Hi, theta):
        a, e = s.slack, self.epsilon
        gap = 1 - theta
        metric = Hi if self.slip == "6 H⁻¹ for H in the free test" else s.H
        if norm2(gap, metric) <= 4 * e and a + psi @ gap >= 0:
            return gap, True
        A = np.eye(len(theta)) if self.slip == "6 norms without H⁻¹" else Hi
        w, N, c = norm2(omega, A), norm2(psi, A), float(psi @ Hi @ omega)
        if w == 0:
            return np.zeros_like(theta), False
        lam4 = math.sqrt(w) / (2 * math.sqrt(e))
        if a - c / lam4 >= 0:
            return -Hi @ omega / lam4, False
        c = float(psi @ A @ omega)
        room, cross = 4 * e * N - a * a, w * N - c * c
        if cross <= 1e-12 * w * N or room <= 0:
            return -a * Hi @ psi / norm2(psi, Hi), False
        lam4 = math.sqrt(cross / room)
        lam3 = (c - lam4 * a) / (math.sqrt(N) if self.slip == "6 λ₃ without its square" else N)
        return Hi @ (lam3 * psi - omega) / lam4, False


def _unless_zero(vector, length):
    return vector / length if length > 0 else np.zeros_like(vector)


SLIPS = (
    "1 importance ratio inverted",
    "3 free mean",
    "3 kl-only mean",
    "4 sign in λ₁",
    "4 λ₂ without its denominator",
    "5 λ₂ū for λ₁ū",
    "6 norms without H⁻¹",
    "6 λ₃ without its square",
    "6 H⁻¹ for H in the free test",
    "7 sign of ln|Θ|",
)
JUDGES = ("trust-region", "value-constraint", "optimality")


def verdicts(kind, examples=60, judges=JUDGES):
    subject = Subject(kind)
    return {name: attempt(BY_NAME[name], subject, examples, shrink=False) for name in judges}


def test_the_multipliers_without_a_slip_pass():
    for name, outcome in verdicts(Printed).items():
        assert outcome.held, (name, outcome.message, outcome.counterexample)


@pytest.mark.parametrize("slip", SLIPS)
def test_a_printed_slip_is_caught(slip):
    mutant = type("Mutant", (Printed,), {"slip": slip})
    broken = [name for name, outcome in verdicts(mutant).items() if not outcome.held]
    assert broken, f"no property notices: {slip}"


def test_an_inverted_importance_ratio_is_caught_in_the_exact_variants(monkeypatch):
    original = scaled_problem.ScaledProblem.gain

    def inverted(self, z):
        gain, gradient = original(self, z)
        # w ↦ w |Θ'|/|Θ| turns √(|Θ|/|Θ'|) into √(|Θ'|/|Θ|).
        factor, total = math.exp(float(z[self.dim :].sum())), float(self.stats.weights.sum())
        weighted = (gain + total) * factor
        gradient = gradient * factor
        gradient[self.dim :] += weighted
        return weighted - total, gradient

    judges = ("value-constraint", "raises-value")
    kind = curricula.get("spgl-joint")
    assert all(o.held for o in verdicts(kind, 20, judges).values())
    monkeypatch.setattr(scaled_problem.ScaledProblem, "gain", inverted)
    assert not all(o.held for o in verdicts(kind, 20, judges).values())


def test_the_appendix_trace_is_caught_in_the_exact_kl(monkeypatch):
    # Erratum 6: tr(Σ₀⁻¹Θ^½Σ̃⁻¹Θ^½) for tr(Σ₀⁻¹Θ^½Σ̃Θ^½) couples by C⁻¹ ∘ C⁻¹ instead of C ∘ C⁻¹.
    def wrong(self, v):
        return v if self.family.diagonal else self.family.precision**2 @ v

    kind, judges = curricula.get("spgl-exact-kl"), ("trust-region", "local-optimality")
    assert all(o.held for o in verdicts(kind, 40, judges).values())
    monkeypatch.setattr(scaled_problem.ScaledProblem, "_coupled", wrong)
    assert not all(o.held for o in verdicts(kind, 40, judges).values())


def test_the_wrong_sign_of_ln_theta_is_caught_in_the_exact_objective(monkeypatch):
    original = scaled_problem.ScaledProblem.distance

    def wrong(self, z):
        value, gradient = original(self, z)
        gradient[self.dim :] -= 1.0
        return value - float(z[self.dim :].sum()), gradient

    kind = curricula.get("spgl-joint")
    monkeypatch.setattr(scaled_problem.ScaledProblem, "distance", wrong)
    assert not verdicts(kind, 20, ("convergence",))["convergence"].held
