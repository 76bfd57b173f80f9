"""Sparse Maze: walk a square corridor to a goal that nothing but reaching it rewards."""

from pacebench.envs.sparse_maze.batch import SparseMazeBatch

__all__ = ["SparseMazeBatch"]
