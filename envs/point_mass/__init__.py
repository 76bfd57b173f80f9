"""Point Mass: steer a mass through the gate in a wall to the goal behind it."""

from pacebench.envs.point_mass.batch import PointMassBatch

__all__ = ["PointMassBatch"]
