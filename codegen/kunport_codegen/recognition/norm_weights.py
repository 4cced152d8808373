"""What multiplies and shifts a normalised tensor: its weight and bias, with what is added to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kunport_codegen.expression import Scalar, symbols_of, unwrap
from kunport_codegen.facts import Number
from kunport_codegen.graph import DType, Node

from .index import FLOAT32, Index, sizes, split_number


@dataclass(slots=True)
class Weight:
    """A parameter, or ``offset`` plus one. ``dtype`` is the sum's, ``size`` that of the last dimension."""

    path: str
    offset: float
    dtype: DType | None
    size: Number
    covered: list[Node]
    groups: Number | None = None


def read_weight(index: Index, arg: Any, scaled: Node) -> Weight | None:
    """A weight ``w``, ``number + w`` or ``w - number`` for the last dimension, itself or upcast."""
    node, offset, covered = index.producer(arg), 0.0, []
    dtype = node.dtype if node is not None else None
    while node is not None and node.op in ("to", "add", "sub"):
        covered.append(node)
        if node.op == "to":
            if node.dtype != FLOAT32:
                return None
            node = index.producer(node.args[0])
            continue
        parts = split_number(node, index.producer)
        if parts is None or offset or (node.op == "sub" and index.producer(node.args[0]) is None):
            return None
        dtype = node.dtype
        offset = float(unwrap(parts[1])) * (-1 if node.op == "sub" else 1)
        node = parts[0]
    if node is None or node.op != "parameter" or node.shape is None:
        return None
    groups = node.shape[0] if len(node.shape) == 2 and _spans_heads(node, scaled) else None
    if groups is None and vector(index, node, scaled) is None:
        return None
    return Weight(str(node.args[0]), offset, dtype, node.shape[-1], covered, groups)


def operand_weight(index: Index, product: Node, current: Node) -> Weight | None:
    """The weight that multiplies ``current``."""
    for arg, other in (product.args, product.args[::-1]):
        if index.producer(other) is current and (weight := read_weight(index, arg, current)):
            return weight
    return None


def multiplied(index: Index, current: Node) -> bool:
    """Whether a weight of a form that is not known here multiplies ``current``: a vector made of parameters alone."""
    product = index.user(current)
    while product is not None and product.op == "to":
        current, product = product, index.user(product)
    if product is None or product.op != "mul":
        return False
    others = [node for arg in product.args if (node := index.producer(arg)) is not None and node is not current]
    return any(sizes(node) == (sizes(current) or ())[-1:] and _of_parameters(index, node) for node in others)


def _of_parameters(index: Index, node: Node) -> bool:
    sources = {each.op for each in index.ancestors(node.id) if not index.reads(each)}
    return "parameter" in sources and "input" not in sources


def vector(index: Index, node: Node | None, like: Node) -> str | None:
    """The path of a parameter with one element for each of the last dimension."""
    shape, wanted = sizes(node), sizes(like)
    if node is None or node.op != "parameter" or shape is None or wanted is None or shape != wanted[-1:]:
        return None
    return str(node.args[0])


def operand_bias(index: Index, total: Node, current: Node) -> str | None:
    """The path of the bias that is added to ``current``."""
    for arg, other in (total.args, total.args[::-1]):
        if index.producer(other) is current and (path := vector(index, index.producer(arg), current)):
            return path
    return None


def _spans_heads(weight: Node, scaled: Node) -> bool:
    """Whether a weight has the last two dimensions of a tensor, of which none is of tokens."""
    spanned = (scaled.shape or ())[-2:]
    of_tokens = any(isinstance(size, Scalar) and symbols_of(size.expr) for size in spanned)
    return sizes(weight) == (sizes(scaled) or ())[-2:] and not of_tokens


def rounds_as_said(weight: Weight, cast: str, dtype: DType | None) -> bool:
    """Whether ``offset + weight`` was added in float32 for a product in float32, and in the input's dtype otherwise."""
    return not weight.offset or weight.dtype == (FLOAT32 if cast == "after_weight" else dtype)
