"""Benches of who goes first when not all can."""
