"""The forms of a verdict: a table for people, a chart of lag over time."""
