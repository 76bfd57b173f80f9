"""The figures of Point Mass that its physics, its controller and its pictures share."""

from __future__ import annotations

import numpy as np

START = np.array([0.0, 3.0])
GOAL = np.array([0.0, -3.0])
GOAL_RADIUS = 0.25
# Positions are clipped to ±ARENA on both axes.
ARENA = 4.0
MAX_FORCE = 10.0
# Acceleration per unit of force.
DRIVE = 1.5
SUBSTEPS = 10
TIME_STEP = 0.01
