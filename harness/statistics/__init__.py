"""Estimates, tests and verdicts that are right as often as they say.

`analysis.analyse` does everything from the table of runs; the modules below it are pure functions
on arrays. docs/statistics.md says what each interval means and when it is used.
"""
