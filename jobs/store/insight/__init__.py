"""Insight: answers for people about work under way. Reads, and the presence that workers leave for these."""
