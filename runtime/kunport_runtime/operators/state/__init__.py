"""Operators that carry a state from token to token, ragged as attention is."""
