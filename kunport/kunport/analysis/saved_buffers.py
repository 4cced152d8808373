"""Saved buffers that are tables: masks, frequencies, cosines and sines that the constructor computes for good.

A checkpoint has a copy of them, and yet they are no data: what the constructor gives them is taken for their value.
A buffer that begins as one number everywhere, or at random, is a place for data and stays the checkpoint's; so does
one that the model's forward writes to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kunport_codegen.graph import Node, Parameter, refs

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter
    from kunport.analysis.trace import Trace
    from kunport.analysis.values import Tensor

# Operators that make elements which are not all alike out of numbers.
_VARIED = frozenset(("arange", "linspace", "logspace", "tril", "triu", "eye"))
_DATA = frozenset(("parameter", "input", "unknown", "state", "empty", "rand", "randn", "randint", "randperm"))


def is_table(trace: Trace, made: int) -> bool:
    """Whether the node of an id computes elements that differ from each other, and from numbers alone."""
    varied, seen, pending = False, {made}, [made]
    while pending:
        node = trace.node(pending.pop())
        if node is None or node.op in _DATA or node.body is not None:
            return False
        varied = varied or node.op in _VARIED or (node.op == "tensor" and len(set(_numbers(node.args[0]))) > 1)
        operands = set(refs((node.args, node.kwargs))) - seen
        seen |= operands
        pending += operands
    return varied


def _numbers(data: Any) -> Iterator[str]:
    if isinstance(data, list | tuple):
        for each in data:
            yield from _numbers(each)
    else:
        yield str(data)


def unsettle(interpreter: Interpreter, cell: Tensor) -> None:
    """The model's forward writes to a table: what it read of it before is the checkpoint's after all."""
    assert cell.state is not None
    node = None if cell.state.initial is None else interpreter.trace.node(cell.state.initial)
    if node is not None:
        cell.state.initial = None
        node.op, node.args, node.kwargs = "parameter", ("",), {}
        interpreter.states.append((cell, node))


def settled(parameters: Mapping[str, Parameter], data: Collection[str]) -> dict[str, Parameter]:
    """The parameters, those of the paths ``data`` being the checkpoint's."""
    known = set(data)
    return {path: replace(each, initial=None) if path in known else each for path, each in parameters.items()}


def taken_values(parameters: Mapping[str, Parameter], nodes: Iterable[Node]) -> list[str]:
    """What a reader is told of the tables that nodes read, those of equal layers in one sentence."""
    read = {node.id for node in nodes}
    names = dict.fromkeys(re.sub(r"\b\d+\b", "*", each.path) for each in parameters.values() if each.initial in read)
    return [
        f"the value that the constructor gives {name} is taken; the checkpoint has a copy of its own" for name in names
    ]
