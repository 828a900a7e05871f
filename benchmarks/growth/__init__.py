"""Benches of what size costs: of the registry of jobs, and of history."""
