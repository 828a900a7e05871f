"""The load of a run: seeded jobs of every kind, and calls about them while faults strike."""
