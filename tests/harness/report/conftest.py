from __future__ import annotations

import pytest

from pacebench.harness.report.data import ReportData
from pacebench.harness.report.document import Document
from pacebench.harness.report.gather import report_data
from pacebench.harness.report.sections.order import document
from tests.harness.report import synthetic

HOSTILE = "<script>alert(1)</script>"


def make_view(**options: object) -> ReportData:
    """Returns the view of synthetic results, without a frozen plan."""
    plan = synthetic.study(**{k: v for k, v in options.items() if k != "updates"})  # type: ignore[arg-type]
    frames = synthetic.frames(
        **{k: v for k, v in options.items() if k in ("methods", "setups", "seeds", "updates")},  # type: ignore[arg-type]
        plan=plan,
    )
    return report_data(frames, plan, {name: synthetic.setup(name) for name in plan.setups})


@pytest.fixture(scope="session")
def golden_view() -> ReportData:
    return make_view()


@pytest.fixture(scope="session")
def golden_document(golden_view: ReportData) -> Document:
    return document(golden_view)
