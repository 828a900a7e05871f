"""Workflows and their runs (ADR 32): lists, the graph of a definition, and a run with its tasks while it goes on."""
