"""Workflows, as far as they are pure: the states of runs and task runs, and what makes a graph sound (ADR 32)."""
