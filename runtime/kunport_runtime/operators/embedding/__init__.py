"""Embedding of tokens."""
