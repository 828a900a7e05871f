"""Workflows: definitions and their versions; runs and task runs (ADR 32)."""
