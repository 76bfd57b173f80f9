"""PPO over a stack of independent agents.

Parameters are PyTorch's, and so is the optimiser; the kernels are NumPy's on the same memory. On
the matrices of such small networks NumPy is several times faster (`docs/learners.md`), and its
stacked product is one BLAS call per agent and layer: what one agent computes cannot depend on how
many others stand beside it.
"""
