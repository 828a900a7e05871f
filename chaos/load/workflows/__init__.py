"""Workflows of every shape, their runs, and what callers do to these."""

from chaos.load.workflows.plans import FAN, MAX_PARALLEL, workflow_plans
from chaos.load.workflows.runs import Runs

__all__ = ["FAN", "MAX_PARALLEL", "Runs", "workflow_plans"]
