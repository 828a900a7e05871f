"""Leases and time limits of claimed triggers, from within the process (renewer) and from outside (guard)."""
