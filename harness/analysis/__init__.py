"""What the records say: scores, plans, comparisons and verdicts."""
