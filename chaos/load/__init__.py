"""What a run has to do: seeded jobs of every kind, and calls about them while faults strike."""
