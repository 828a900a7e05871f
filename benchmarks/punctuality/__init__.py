"""Benches of when things start: in calm, under load, and when all falls due at once."""
