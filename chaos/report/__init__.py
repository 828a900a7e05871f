"""What a verdict looks like: a table for people, a chart of lag over time."""
