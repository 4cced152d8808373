"""Rotary position embeddings."""

from __future__ import annotations

import ast

from kunport.validation.planted.kinds import kind
from kunport.validation.planted.source import NotApplicableError, Place, Source, expression, is_self, method


@kind
def rope_base(source: Source) -> Place:
    """The base of the frequencies is twice what it should be."""
    return _with(source, "{**x, 'rope_theta': 2 * x['rope_theta']}")


@kind
def rope_pairing(source: Source) -> Place:
    """Neighbouring elements are rotated where halves should be, or the other way round."""
    rope = source.one("get_rope")
    neighbours = rope.keyword("is_neox_style")
    rope.drop("is_neox_style")
    if neighbours is None:
        rope.call.keywords.append(ast.keyword("is_neox_style", ast.Constant(False)))
    return rope.place


@kind
def rope_dimensions(source: Source) -> Place:
    """Half as many elements are rotated."""
    return _with(source, "{**x, 'partial_rotary_factor': 0.5 * x.get('partial_rotary_factor', 1.0)}")


@kind
def rope_scaling_missing(source: Source) -> Place:
    """The frequencies are not scaled."""
    parameters = source.config.get("rope_parameters") or {}
    kinds = {each.get("rope_type") for each in (parameters, *parameters.values()) if isinstance(each, dict)}
    if not kinds - {None, "default"}:
        raise NotApplicableError("its frequencies are not scaled")
    return _with(source, "{**x, 'rope_type': 'default'}")


@kind
def key_not_rotated(source: Source) -> Place:
    """Only the query is rotated."""
    rope = source.one("get_rope")
    for node in ast.walk(method(rope.owner, "forward")):
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)):
            continue
        call = node.value.body if isinstance(node.value, ast.IfExp) else node.value
        if isinstance(call, ast.Call) and is_self(call.func, rope.attribute):
            targets = node.targets[0].elts
            if isinstance(call.args[2], ast.Name) and ast.unparse(targets[1]) == call.args[2].id:
                targets[1] = ast.Name("_", ast.Store())
                call.args[2] = expression("k.clone()", k=call.args[2])  # or it is rotated in place
                return Place(rope.owner.name)
    raise NotApplicableError("the key that is rotated has no name of its own before")


def _with(source: Source, parameters: str) -> Place:
    return source.one("get_rope", having="rope_parameters").change("rope_parameters", parameters)
