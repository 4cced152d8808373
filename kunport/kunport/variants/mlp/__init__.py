"""Variants of the MLP of a layer without experts."""
