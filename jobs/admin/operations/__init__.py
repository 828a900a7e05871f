"""Bulk operations."""
