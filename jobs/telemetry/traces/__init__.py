"""Traces: their contexts as W3C writes them."""
