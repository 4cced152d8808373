"""Variants of the model as a whole."""
