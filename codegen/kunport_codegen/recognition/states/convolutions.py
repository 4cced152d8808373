"""Causal convolutions of each channel by itself."""

from __future__ import annotations

from typing import Any

from kunport_codegen.expression import Scalar, unwrap
from kunport_codegen.facts import Number, StateOperator
from kunport_codegen.graph import Node, Ref
from kunport_codegen.recognition.evaluate import UnevaluableError, evaluate
from kunport_codegen.recognition.index import Index, argument, is_cast

from .tokens import axes, is_sequence


def find_convolutions(index: Index) -> list[StateOperator]:
    """Each ``conv1d`` that sees nothing but the last few tokens of its own channel."""
    found = (_convolution(index, node) for node in index.in_order("conv1d"))
    return [fact for fact in found if fact is not None]


def find_shifts(index: Index) -> list[StateOperator]:
    """Each token's predecessor, zeros before the first: a sequence that is padded in front and cut at the end."""
    found = []
    for node in index.in_order("pad"):
        source = index.producer(node.args[0])
        where = None if source is None else axes(source)
        if source is None or where is None or source.shape is None or where[:2] != (0, 1) or len(source.shape) != 3:
            continue
        if [unwrap(each) for each in node.args[1]] == [0, 0, 1, -1] and not unwrap(node.kwargs.get("value", 0)):
            output = _started(index, node)
            found.append(
                StateOperator(
                    kind="token_shift",
                    inputs={"x": source.id},
                    sizes={"channels": source.shape[-1]},
                    options={},
                    weight=None,
                    bias=None,
                    output=output.id,
                    nodes=index.exclusive([node, output], output),
                    frame=output.frame,
                    where=node.where,
                )
            )
    return found


def _started(index: Index, shifted: Node) -> Node:
    """The shifted tokens once a state of zeros, as before the first token, has been put before the first one."""
    user = index.user(shifted)
    if user is None or user.op != "setitem" or not isinstance(user.args[1], tuple) or not isinstance(user.args[2], Ref):
        return shifted
    first = len(user.args[1]) == 2 and user.args[1][0] == slice(None, None, None) and unwrap(user.args[1][1]) == 0
    try:
        zeros = index.constant(user.args[2].id) and not evaluate(index.nodes, user.args[2].id, {}).any()
    except UnevaluableError:
        return shifted
    return user if first and zeros else shifted


def _convolution(index: Index, node: Node) -> StateOperator | None:
    source = index.producer(node.args[0])
    weight = _parameter(index, node.args[1])
    bias = _parameter(index, argument(node, 2))
    if source is None or weight is None or weight.shape is None or (bias is None and argument(node, 2) is not None):
        return None
    channels, per_group, width = weight.shape
    each = unwrap(node.kwargs.get("groups", 1)) == unwrap(channels) and unwrap(per_group) == 1
    if not each or not set(node.kwargs) <= {"padding", "groups"} or unwrap(width) < 2:
        return None
    padding = unwrap(node.kwargs.get("padding", 0))
    if isinstance(padding, list | tuple):
        padding = unwrap(padding[0]) if len(padding) == 1 else None
    nodes = [node]
    if padding == unwrap(width) - 1:
        cut = index.user(node)
        if cut is None or not _cuts(cut):
            return None
        nodes.append(cut)
    elif padding == 0 and _pads(source, unwrap(width) - 1):
        nodes.append(source)
        source = index.producer(source.args[0])
    else:
        return None
    if source is None or source.shape is None or len(source.shape) != 3 or not is_sequence(source.shape[-1]):
        return None
    output = node if nodes[-1] is not node and nodes[-1].op == "pad" else nodes[-1]
    after = index.user(output)
    while after is not None and is_cast(after):
        after = index.user(after)
    activated = after is not None and after.op == "silu"
    if activated and after is not None:
        nodes.append(after)
        output = after
    return StateOperator(
        kind="short_convolution",
        inputs={"x": source.id},
        sizes={"channels": _named(channels, node.kwargs.get("groups")), "width": width},
        options={"activation": "silu"} if activated else {},
        weight=str(weight.args[0]),
        bias=None if bias is None else str(bias.args[0]),
        output=output.id,
        nodes=index.exclusive(nodes, output),
        frame=node.frame,
        where=node.where,
    )


def _parameter(index: Index, arg: Any) -> Node | None:
    """The parameter behind an operand that is one but for axes of size one."""
    node = index.strip(index.producer(arg), "squeeze", "unsqueeze", "to", "reshape")
    return node if node is not None and node.op == "parameter" else None


def _cuts(node: Node) -> bool:
    """Whether it takes the first ``sequence`` tokens along the last axis, and everything of the others."""
    if node.op != "getitem" or not isinstance(node.args[1], tuple):
        return False
    *before, last = node.args[1]
    whole = all(item is Ellipsis or item == slice(None, None, None) for item in before)
    return (
        whole
        and isinstance(last, slice)
        and unwrap(last.start) in (None, 0)
        and last.step is None
        and is_sequence(last.stop)
    )


def _pads(node: Node, before: int) -> bool:
    """Whether it puts zeros before the first token, as many as the kernel looks back."""
    if node.op != "pad" or [unwrap(each) for each in node.args[1]] != [before, 0]:
        return False
    return unwrap(node.kwargs.get("value", 0)) in (None, 0) and node.kwargs.get("mode", "constant") == "constant"


def _named(size: Number, other: Any) -> Number:
    """The size that knows its expression."""
    return other if isinstance(other, Scalar) and not isinstance(size, Scalar) else size
