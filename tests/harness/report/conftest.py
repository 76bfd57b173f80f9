from __future__ import annotations

import pytest

from harness.report.document import Document
from harness.report.gather import view_of
from harness.report.sections.order import document
from harness.report.view import View
from tests.harness.report import synthetic

HOSTILE = "<script>alert(1)</script>"


def make_view(**options: object) -> View:
    """Returns the view of synthetic results, without a frozen plan."""
    plan = synthetic.study(**{k: v for k, v in options.items() if k != "updates"})  # type: ignore[arg-type]
    frames = synthetic.frames(
        **{k: v for k, v in options.items() if k in ("methods", "setups", "seeds", "updates")},  # type: ignore[arg-type]
        plan=plan,
    )
    return view_of(frames, plan, {name: synthetic.setup(name) for name in plan.setups})


@pytest.fixture(scope="session")
def golden_view() -> View:
    return make_view()


@pytest.fixture(scope="session")
def golden_document(golden_view: View) -> Document:
    return document(golden_view)
