"""Explain: why something waits, by the rules and the figures that dispatch uses.

``explain_trigger`` and ``explain_job`` name every gate; ``tenant_usage`` says how much of its quotas a tenant uses.
They only read: each answer was true at one moment, and changes nothing.
"""

from jobs.explain.job import explain_job
from jobs.explain.trigger import Explanation, explain_trigger
from jobs.explain.usage import tenant_usage
from jobs.shapes.explain import GATE_NAMES

__all__ = ("GATE_NAMES", "Explanation", "explain_job", "explain_trigger", "tenant_usage")
