"""Only one number per training run gets through."""

from __future__ import annotations

import numpy as np
import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.scores import Scores, aligned, require_replication


def test_episodes_cannot_pass_for_runs() -> None:
    with pytest.raises(UserError, match="hold a seed twice; the unit is the training run"):
        Scores("m", ("a",), (0, 0, 1), np.ones((3, 1)))


def test_transposed_input_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="transposed"):
        Scores("m", ("a", "b"), (0, 1, 2), np.ones((2, 3)))


def test_square_transposed_input_is_refused_by_type() -> None:
    with pytest.raises(UserError, match="task names must be strings"):
        Scores("m", (0, 1), ("a", "b"), np.ones((2, 2)))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="seeds must be integers"):
        Scores("m", ("a", "b"), ("x", "y"), np.ones((2, 2)))  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(UserError, match=r"seed 1 on 'b' is .*floor"):
        Scores("m", ("a", "b"), (0, 1), np.array([[1.0, 2.0], [3.0, bad]]))


def test_ragged_input_is_refused() -> None:
    with pytest.raises(UserError, match="ragged"):
        Scores("m", ("a", "b"), (0, 1), [[1.0, 2.0], [3.0]])  # type: ignore[arg-type]


def test_empty_and_repeated_tasks_are_refused() -> None:
    with pytest.raises(UserError, match="empty"):
        Scores.single_task("m", [])
    with pytest.raises(UserError, match="task twice"):
        Scores("m", ("a", "a"), (0, 1), np.ones((2, 2)))


def test_the_matrix_cannot_be_changed() -> None:
    source = np.ones((2, 1))
    scores = Scores("m", ("a",), (0, 1), source)
    source[0, 0] = 7
    assert scores.matrix[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        scores.matrix[0, 0] = 2


def test_alignment_follows_names_not_positions() -> None:
    a = Scores("x", ("a", "b"), (0, 1), np.array([[1.0, 2.0], [3.0, 4.0]]))
    b = Scores("y", ("b", "a"), (0, 1), np.array([[20.0, 10.0], [40.0, 30.0]]))
    np.testing.assert_array_equal(aligned(a, b)[1], [[10, 20], [30, 40]])
    with pytest.raises(UserError, match="different tasks"):
        aligned(a, a.task("a"))


def test_one_run_is_no_replication() -> None:
    with pytest.raises(UserError, match="one run per task"):
        require_replication(Scores.single_task("m", [1.0]))
