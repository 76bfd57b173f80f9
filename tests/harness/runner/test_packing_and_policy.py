from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacebench.harness.records import Status
from pacebench.harness.runner.attempt import Ending
from pacebench.harness.runner.packing import LARGEST, Rates, _makespan, pack
from pacebench.harness.runner.policy import RETRIES, Action, decide, infrastructure_failures
from tests.harness.runner.plans import of_kinds, plan_cell


@given(
    cells=st.lists(st.tuples(st.integers(1, 70), st.integers(1, 9)), min_size=1, max_size=6),
    workers=st.integers(1, 12),
    batched=st.booleans(),
)
def test_every_seed_is_in_exactly_one_batch(cells, workers, batched):
    planned = [
        plan_cell(f"c{i}", seeds=seeds, points=points, x=i)
        for i, (seeds, points) in enumerate(cells)
    ]
    batches = pack([*chain(*planned)], workers, Rates(), lambda _: batched)
    for cell in planned:
        packed = [run for batch in batches for run in batch if run.label == cell[0].label]
        assert sorted(run.seed.index for run in packed) == [run.seed.index for run in cell]
    costs = [Rates().cost(batch) for batch in batches]
    assert costs == sorted(costs, reverse=True), "longest first"
    assert max(len(batch) for batch in batches) <= (LARGEST if batched else 1)


def sizes(cells, workers, batched=True):
    return [len(batch) for batch in pack([*chain(*cells)], workers, Rates(), lambda _: batched)]


def test_one_cell_is_spread_over_all_workers():
    assert sizes([plan_cell(seeds=10)], 1) == [10]
    assert sizes([plan_cell(seeds=10)], 2) == [5, 5]
    assert sizes([plan_cell(seeds=10)], 5) == [2] * 5
    assert sizes([plan_cell(seeds=10)], 64) == [1] * 10


def test_cells_that_fill_the_workers_stay_whole():
    cells = [plan_cell(f"c{i}", seeds=10, x=i) for i in range(4)]
    assert sizes(cells, 2) == [10] * 4
    assert sizes(cells, 4) == [10] * 4


def test_no_worker_idles_for_long_at_the_end():
    # Three cells on two workers: whole cells would leave one worker idle for a third of the time.
    cells = [plan_cell(f"c{i}", seeds=10, x=i) for i in range(3)]
    batches = pack([*chain(*cells)], 2, Rates(), lambda _: True)
    costs = [Rates().cost(batch) for batch in batches]
    assert sum(costs) / (2 * _makespan(costs, 2)) > 0.95


def test_slow_cells_begin_first_and_end_together():
    # One is ten times as slow as the others: taken for equal, it would be begun last, or be whole.
    cells = of_kinds(10, 10, 10, 10)
    rates = Rates((cell[0], 10.0 if cell is cells[2] else 1.0) for cell in cells)
    batches = pack([*chain(*cells)], 2, rates, lambda _: True)
    assert {batch[0].label for batch in batches[:2]} == {"c2"}
    costs = [rates.cost(batch) for batch in batches]
    assert sum(costs) / (2 * _makespan(costs, 2)) > 0.95


def test_cells_of_unknown_speed_are_taken_for_average_ones():
    slow, fast, new = of_kinds(1, 1, 1)
    rates = Rates([(slow[0], 3.0)])
    rates.measured(fast, rates.cost(slow) / 3.0)
    assert rates.cost(new) == pytest.approx(2.0 * rates.cost(fast))
    assert rates.cost(slow) == pytest.approx(3.0 * rates.cost(fast))


def test_a_learner_without_batches_gets_single_seeds():
    assert sizes([plan_cell(seeds=4)], 2, batched=False) == [1] * 4


def test_infrastructure_is_retried_twice_the_last_time_alone():
    assert RETRIES == 2
    actions = [decide(Ending.DIED, 5, failures) for failures in range(3)]
    assert [d.action for d in actions] == [Action.TOGETHER, Action.ALONE, Action.GIVE_UP]
    assert all(d.counts for d in actions)
    assert actions[-1].status is Status.INFRASTRUCTURE


def test_a_record_that_cannot_be_read_back_is_not_held_against_the_method():
    assert decide(Ending.DONE, 1, RETRIES).status is Status.INFRASTRUCTURE
    assert decide(Ending.DONE, 1, 0).counts


def test_out_of_memory_is_retried_in_smaller_batches():
    assert decide(Ending.MEMORY, 5, 0).action is Action.ALONE


@pytest.mark.parametrize(
    ("ending", "status"), [(Ending.RAISED, Status.CRASHED), (Ending.TIMEOUT, Status.TIMEOUT)]
)
def test_a_method_that_fails_is_found_out_and_not_retried(ending, status):
    together = decide(ending, 3, 0)
    assert together.action is Action.ALONE
    assert not together.counts
    alone = decide(ending, 1, 0)
    assert (alone.action, alone.status) == (Action.GIVE_UP, status)


@pytest.mark.parametrize("ending", [Ending.STOPPED, Ending.LOST, Ending.STORAGE])
@pytest.mark.parametrize("failures", [0, 2])
def test_what_is_nobodys_failure_costs_nothing(ending, failures):
    decision = decide(ending, 1, failures)
    assert decision.action is Action.TOGETHER
    assert not decision.counts


def test_failures_are_counted_from_the_ledger():
    ledger = [
        {"event": "failure", "runs": ["a", "b"], "counts": True},
        {"event": "failure", "runs": ["a"], "counts": False},
        {"event": "failure", "run": "a", "status": "diverged"},
        {"event": "failure", "runs": ["a"], "counts": True},
    ]
    assert infrastructure_failures(ledger) == {"a": 2, "b": 1}
    ledger.append({"event": "fresh-start", "runs": ["a"]})
    assert infrastructure_failures(ledger) == {"b": 1}
