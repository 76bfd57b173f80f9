"""Tuning: the same budget, the same sampler and the same range of ε and V₋ for every method."""
