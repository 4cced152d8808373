"""What a layer, or the model outside of its layers, computes that no other key states.

`[]` where every operator that applies a parameter, and every other one that does more than add and move elements,
belongs to something that has a name here. Otherwise the fact is opaque, and its reason names those that do not, with
their lines: a behaviour that is not recognised is said to be there.
"""

from __future__ import annotations

from kunport_codegen.graph import Node

from kunport.variants.claims import unexplained
from kunport.variants.fact import Fact
from kunport.variants.model import Layer, Model
from kunport.variants.variant import Example, Found, Variant

KEY = "unexplained"
_NAMED = 8  # lines that a reason names


def read(model: Model, layer: Layer | None) -> Found:
    """Nothing left, or what is."""
    nodes = unexplained(model, layer)
    if not nodes:
        yield KEY, Fact([], layer.frame.where if layer is not None else model.graph.modules[""].where)
        return
    lines = list(dict.fromkeys(f"{_name(model, layer, node)} ({node.where})" for node in nodes))
    more = f" and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    yield KEY, Fact(None, nodes[0].where, reason=f"no fact states what these do: {', '.join(lines[:_NAMED])}{more}")


def _name(model: Model, layer: Layer | None, node: Node) -> str:
    """The operator, with the parameter that it applies."""
    paths = (path for arg in node.args if (path := model.parameter(arg)) is not None)
    path = next(paths, None)
    if path is None:
        return node.op
    return f"{node.op} of {layer.inside(path) if layer is not None else path}"


VARIANT = Variant(
    keys={KEY: "[]; never anything else, since what is left is opaque"},
    scope="everywhere",
    read=read,
    examples=(
        Example("llama", []),
        Example("deepseek_v3", [], layer=3),
        Example("diffllama", []),
    ),
)
