"""Estimates, tests and verdicts that are right as often as they say.

`analysis.analyse` does everything from the table of runs; the modules below it are pure functions
on arrays. docs/statistics.md says what each interval means and when it is used.
"""

from __future__ import annotations

from pacebench.harness.statistics.confidence_sequence import difference_interval

__all__ = ["difference_interval"]
