"""Beyond these limits a run counts as diverged: its numbers are finite but mean nothing."""

from __future__ import annotations

# No healthy network of tanh or rectified units has such parameters; one on its way to overflow has.
MAX_PARAMETER = 1e6
# Clipping makes a step along any gradient look harmless. Returns in single precision have seven
# digits, so an error of this size has lost all that could be learned from.
MAX_GRADIENT_NORM = 1e8
# A squared error, for learners that report their loss and not its gradient.
MAX_LOSS = MAX_GRADIENT_NORM**2
