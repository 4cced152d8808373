"""Variants of the residual stream."""
