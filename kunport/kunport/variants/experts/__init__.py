"""Variants of mixtures of experts. A dense layer has none of these keys."""
