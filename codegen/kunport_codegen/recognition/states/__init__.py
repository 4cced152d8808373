"""Operators with a state of each sequence: what the source spells out, proved to be an operator of the runtime.

A convolution is known by its form. The others are reference implementations of many steps (chunks, padding, loops over
positions), each written in its own way, so they are known by their numbers: `trial` evaluates what the source computes
on random inputs, `formulas` what an operator computes, token by token, and the two must be equal. A file for each
family says which tensors may play which part.
"""

from __future__ import annotations

from kunport_codegen.facts import StateOperator
from kunport_codegen.recognition.index import Index

from .convolutions import find_convolutions


def find_states(index: Index) -> list[StateOperator]:
    """The state operators of a graph, in order."""
    found = find_convolutions(index)
    return sorted(found, key=lambda each: index.order[each.output])


__all__ = ["find_states"]
