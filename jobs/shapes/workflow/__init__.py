"""Workflows, as they are written and read."""
