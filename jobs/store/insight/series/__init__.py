"""What happened and what was seen over time: the counts of processes, and the looks of the leader."""
