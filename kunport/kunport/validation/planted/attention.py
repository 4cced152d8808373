"""Attention."""

from __future__ import annotations

import ast

from kunport.validation.planted.kinds import kind
from kunport.validation.planted.source import (
    NotApplicableError,
    Place,
    Source,
    calls,
    expression,
    is_self,
    method,
    replace,
    replace_once,
)

WINDOW = "per_layer_sliding_window"


@kind
def attention_scale(source: Source) -> Place:
    """The scores are scaled twice."""
    return _changed(source, "scale", "x * x")


@kind
def window_off_by_one(source: Source) -> Place:
    """A query sees one key more than its window holds."""
    return _changed(source, WINDOW, "x if x is None else x + 1")


@kind
def window_missing(source: Source) -> Place:
    """A query sees all keys before it."""
    return _dropped(source, WINDOW)


@kind
def window_pattern_shifted(source: Source) -> Place:
    """The layers with a window are those before the right ones."""
    attention = source.one("Attention", having=WINDOW)
    window = attention.keyword(WINDOW)
    assert window is not None

    def shifted(node: ast.AST) -> ast.expr | None:
        if isinstance(node, ast.Subscript) and ast.unparse(node) == "config.layer_types[layer_idx]":
            return expression("config.layer_types[(layer_idx + 1) % len(config.layer_types)]")
        return None

    def chosen(node: ast.AST) -> ast.AST | None:
        is_window = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == ast.unparse(window.value)
        return replace(node, shifted) if is_window and "layer_types" in ast.unparse(node) else None

    if len(set(source.config.get("layer_types") or ())) < 2:
        raise NotApplicableError("all layers have the same window")
    replace_once(attention.owner, chosen, "which layers have a window is not read of layer_types")
    return attention.place


@kind
def attention_softcap_missing(source: Source) -> Place:
    """The scores are not capped."""
    return _dropped(source, "logits_soft_cap")


@kind
def attention_softcap_halved(source: Source) -> Place:
    """The scores are capped at half the value."""
    return _changed(source, "logits_soft_cap", "x / 2")


@kind
def sinks_missing(source: Source) -> Place:
    """The softmax runs over the keys alone."""
    return _dropped(source, "sinks")


@kind
def alibi_missing(source: Source) -> Place:
    """The distance of a key does not count."""
    return _dropped(source, "alibi_slopes")


@kind
def alibi_halved(source: Source) -> Place:
    """The distance of a key counts half."""
    return _changed(source, "alibi_slopes", "[slope / 2 for slope in x]")


@kind
def key_value_heads_reversed(source: Source) -> Place:
    """The query heads of the first group read the keys and values of the last."""
    attention = source.one("Attention")
    if attention.keyword("num_kv_heads") is None:
        raise NotApplicableError("every query head has a key and value of its own")
    if source.config.get("num_key_value_heads") == 1:
        raise NotApplicableError("there is one key-value head")
    for call in calls(method(attention.owner, "forward")):
        if is_self(call.func, attention.attribute):
            heads = "x.unflatten(-1, (self.attn.num_kv_heads, -1)).flip(-2).flatten(-2)"
            call.args[1:3] = [expression(heads, x=argument) for argument in call.args[1:3]]
            return Place(attention.owner.name)
    raise NotApplicableError("attention is not called")


@kind
def value_scale_missing(source: Source) -> Place:
    """The values are not scaled."""
    for owner in source.classes:
        for node in ast.walk(owner):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and is_self(node.right, "v_scale"):
                left = node.left
                replace(owner, lambda other, node=node, left=left: left if other is node else None)
                return Place(owner.name)
    raise NotApplicableError("it scales no values")


def _changed(source: Source, name: str, formula: str) -> Place:
    return source.one("Attention", having=name).change(name, formula)


def _dropped(source: Source, name: str) -> Place:
    return source.one("Attention", having=name).drop(name)
