"""Experts: routing tokens to them, and their products."""
