"""Views that change the order of elements, and casts that change their values.

A reshape of what was transposed puts other elements side by side. A cast to a type that the source names, and that is
narrower than what it reads, rounds whatever type the model has.
"""

from __future__ import annotations

import math

import numpy as np
from kunport_codegen.graph import Node
from kunport_codegen.recognition.evaluate import UnevaluableError, evaluate
from kunport_codegen.recognition.index import sizes

from kunport.variants.model import TRANSPOSED, VIEWS, Model

_TRANSPOSING = frozenset(TRANSPOSED) - {"to", "reshape", "unsqueeze"}
_HALF, _WHOLE = ("float16", "bfloat16", "float8"), ("int", "uint")
_SHAPING = frozenset(("reshape", "view", "flatten", "unflatten"))
_MOST = 1 << 24  # elements that are followed; where there are more, a view that could move them is taken to do so


def scrambles(model: Model, node: Node) -> bool:
    """Whether an operator makes rows of elements that were in several ones before the views that lead to it.

    Moving whole dimensions of size one about, merging some and taking them apart again scrambles nothing.
    """
    if node.op not in _SHAPING:
        return False
    known: dict[int, bool] = model.memo.setdefault("scrambled", {})
    if node.id not in known:
        known[node.id] = _scrambles(model, node)
    return known[node.id]


def swaps(model: Model, node: Node) -> bool:
    """Whether an operator exchanges dimensions of one size, more than one: the shape does not show that it did."""
    if node.op not in _TRANSPOSING:
        return False
    source = model.index.producer(node.args[0])
    shape = sizes(source)
    if source is None or source.op == "parameter" or shape is None or shape != sizes(node):
        return False
    if math.prod(shape) > _MOST:
        return True
    numbers = np.arange(math.prod(shape)).reshape(shape)
    try:
        return not np.array_equal(evaluate(model.index.nodes, node.id, {source.id: numbers}), numbers)
    except UnevaluableError:
        return True


def inserts(node: Node) -> bool:
    """Whether an operator only adds dimensions of size one, as ``x[None]`` does."""
    if node.op != "getitem":
        return False
    items = node.args[1] if isinstance(node.args[1], list | tuple) else (node.args[1],)
    return all(each is None or each is Ellipsis or each == slice(None) for each in items)


def rounds(model: Model, node: Node) -> bool:
    """Whether an operator casts floating numbers to a half or a smaller type that the source names."""
    return _narrows(model, node, _HALF)


def truncates(model: Model, node: Node) -> bool:
    """Whether an operator casts floating numbers to whole ones, of which floating ones are made again."""
    users = (model.index.nodes.get(each) for each in model.index.users.get(node.id, ()))
    again = any(user is not None and user.dtype is not None and _floats(user.dtype.name) for user in users)
    return again and _narrows(model, node, _WHOLE)


def _narrows(model: Model, node: Node, kinds: tuple[str, ...]) -> bool:
    if node.op not in ("to", "softmax") or node.dtype is None or not str(node.dtype.name).startswith(kinds):
        return False
    source = model.index.producer(node.args[0])
    kind = source.dtype.name if source is not None and source.dtype is not None else ""
    return _floats(kind) and kind != node.dtype.name


def _floats(kind: str) -> bool:
    return str(kind).startswith(("model", "float", "bfloat"))


def _scrambles(model: Model, node: Node) -> bool:
    source, turned = model.index.producer(node.args[0]), False
    if sizes(source) == sizes(node):
        return False
    while source is not None and source.op in VIEWS and not model.index.constant(source.id):
        turned = turned or source.op in _TRANSPOSING
        source = model.index.producer(source.args[0])
    shape = sizes(source)
    if source is None or shape is None:
        return False
    if math.prod(shape) > _MOST:
        return turned
    numbers = np.arange(math.prod(shape))
    orders = [numbers.reshape(shape)]
    if source.id in _heads(model) and len(shape) == 4:
        batch, heads, tokens, size = shape
        orders = [np.swapaxes(numbers.reshape(batch, tokens, heads, size), 1, 2)]
        orders.append(np.transpose(numbers.reshape(tokens, batch, heads, size), (1, 2, 0, 3)))  # tokens come first
        turned = sizes(node) is not None and (sizes(node) or ())[-1] != size  # heads are put together
    if not turned:
        return False
    try:
        held = [evaluate(model.index.nodes, node.id, {source.id: each}) for each in orders]
    except UnevaluableError:
        return True
    return not any(np.array_equal(each.reshape(-1), numbers) for each in held)


def _heads(model: Model) -> set[int]:
    """The results of attentions that still have the heads before the tokens."""
    if "heads" not in model.memo:
        model.memo["heads"] = {fact.output for fact in model.facts.attentions if fact.heads_first}
    found: set[int] = model.memo["heads"]
    return found
