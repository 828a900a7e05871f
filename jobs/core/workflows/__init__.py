"""The pure part of workflows: the states of runs and task runs, and the rules for a sound graph (ADR 32)."""
