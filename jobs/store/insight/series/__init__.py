"""Figures over time: the counts of processes, and the samples of the leader."""
