"""Keeping what is in hand: leases and time limits, from within the process (keeper) and from outside (guard)."""
