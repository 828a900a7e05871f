"""``/workflows`` and ``/workflow-runs`` (ADR 32)."""
