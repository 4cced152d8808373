"""Projections and the way their weights are packed."""

from __future__ import annotations

import ast

from kunport.validation.planted.kinds import kind
from kunport.validation.planted.source import NotApplicableError, Place, Source, calls, replace_once


@kind
def key_and_value_exchanged(source: Source) -> Place:
    """The key's weights are loaded where the value's belong, and the other way round."""
    return _exchanged(source, "k", "v", "QKVParallelLinear")


@kind
def query_and_key_exchanged(source: Source) -> Place:
    """The query's weights are loaded where the key's belong, and the other way round."""
    heads = source.config.get("num_attention_heads")
    if source.config.get("num_key_value_heads", heads) != heads:
        raise NotApplicableError("query and key differ in size, so that loading refuses")
    return _exchanged(source, "q", "k", "QKVParallelLinear")


@kind
def rows_not_ungrouped(source: Source) -> Place:
    """A fused weight's rows stay in groups, where the engine takes all queries, all keys, all values."""
    for call in calls(source.tree):
        if isinstance(call.func, ast.Name) and call.func.id == "ungroup_qkv":
            weight = call.args[0]
            replace_once(source.root, lambda node, call=call, weight=weight: weight if node is call else None, "")
            return source.one("QKVParallelLinear").place
    raise NotApplicableError("it sorts no rows")


@kind
def projection_bias_missing(source: Source) -> Place:
    """A projection is built without the bias that the checkpoint has."""
    fields = ("attention_bias", "qkv_bias", "use_bias", "bias", "mlp_bias")
    for linear in source.built("QKVParallelLinear", "RowParallelLinear", "ColumnParallelLinear"):
        bias = linear.keyword("bias")
        text = "True" if bias is None else ast.unparse(bias.value)
        if text == "True" or any(text == f"config.{field}" and source.config.get(field) for field in fields):
            linear.drop("bias")
            linear.call.keywords.append(ast.keyword("bias", ast.Constant(False)))
            return linear.place
    raise NotApplicableError("its projections have no bias")


@kind
def gate_and_up_exchanged(source: Source) -> Place:
    """The gate's weights are loaded where the up projection's belong, and the other way round."""
    return _exchanged(source, 0, 1, "MergedColumnParallelLinear")


def _exchanged(source: Source, one: str | int, other: str | int, factory: str) -> Place:
    """Swaps two parts in the map of stacked weights."""
    place = source.one(factory).place
    swapped = {one: other, other: one}
    found = False
    for node in ast.walk(source.root):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[1], ast.Constant):
            part = node.elts[1]
            if part.value in swapped and ast.unparse(node.elts[0]).strip("'").endswith("_proj"):
                node.elts[1] = ast.Constant(swapped[part.value])  # type: ignore[index]
                found = True
    if not found:
        raise NotApplicableError("the checkpoint packs them itself")
    return place
