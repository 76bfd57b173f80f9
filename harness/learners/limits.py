"""Beyond what a run counts as diverged: numbers that are finite and mean nothing any more."""

from __future__ import annotations

# No healthy network of tanh or rectified units has such parameters; one on its way to overflow has.
PARAMETER = 1e6
# Clipping makes a step of any gradient look harmless. Returns in single precision have seven
# digits, so an error of this size has lost all that could be learned from.
GRADIENT = 1e8
# A squared error, for learners that report their loss and not its gradient.
LOSS = GRADIENT**2
