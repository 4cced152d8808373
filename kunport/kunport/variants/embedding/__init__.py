"""Variants of the token embedding."""
