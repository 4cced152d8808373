"""Choosing tokens."""
