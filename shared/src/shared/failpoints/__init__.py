"""Faults placed at one step of one process: what there is stands in `steps`, how it is done in `placing`."""

from shared.failpoints.placing import Failpoints
from shared.failpoints.plans import Plan, PlanFolder
from shared.failpoints.steps import KINDS, STEPS, Kind, Step

__all__ = ["KINDS", "STEPS", "Failpoints", "Kind", "Plan", "PlanFolder", "Step"]
