"""Explain: why something waits, said by the rules and the figures that dispatch goes by.

``explain_trigger`` and ``explain_job`` name every gate, ``standing`` says how a tenant stands with its quotas. Reads
alone: whatever is said here was true at one moment, and changes nothing.
"""

from jobs.explain.job import explain_job
from jobs.explain.standing import standing
from jobs.explain.trigger import Explanation, explain_trigger
from jobs.shapes.explain import GATE_NAMES

__all__ = ("GATE_NAMES", "Explanation", "explain_job", "explain_trigger", "standing")
