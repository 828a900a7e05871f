"""Workflows of every shape, their runs, and the calls that steer these."""

from chaos.load.workflows.plans import FAN, MAX_PARALLEL, workflow_plans
from chaos.load.workflows.runs import INNER, Runs

__all__ = ["FAN", "INNER", "MAX_PARALLEL", "Runs", "workflow_plans"]
