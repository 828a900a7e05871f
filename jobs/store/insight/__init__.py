"""Insight: what people ask about work that is under way. Reads, and the presence that workers leave for them."""
