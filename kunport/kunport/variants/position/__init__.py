"""Variants of positions: how tokens know where they are."""
