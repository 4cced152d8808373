"""Attention over a paged cache, and the writes into it."""
