"""Variants of attention: how tokens look at each other."""
