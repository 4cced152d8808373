"""How tokens know where they are: rotary tables and rotations, learned positions, layers without any."""

from __future__ import annotations

from collections.abc import Iterator

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Rope
from kunport_codegen.graph import refs

from kunport.description.findings import Finding
from kunport.description.view import View, inside_layer, show


def describe(view: View) -> Iterator[Finding]:
    """Rotations of queries, learned position embeddings, and attentions that see no position."""
    rotated = set[int]()
    for rope in view.facts.ropes:
        rotated.add(rope.output)
        yield Finding(_table(rope), rope.table.where, view.layer(rope.frame), rope.table.rope_type == "default")
        yield from _rotation(view, rope)
    yield from _learned(view)
    for fact in view.facts.attentions if view.facts.ropes else ():
        if not any(node.id in rotated for node in view.back(fact.query, lambda node: node.op == "linear")):
            yield Finding("no rotation: attention without positions", fact.where, view.layer(fact.frame), usual=False)


def _table(rope: Rope) -> str:
    table = rope.table
    kind = "" if table.rope_type == "default" else f" scaled as {table.rope_type} (config.{table.parameters})"
    factor = "" if table.scaling == 1.0 else f", tables multiplied by {show(table.scaling)}"
    return f"rotary positions, base {show(table.theta)}{kind}{factor}"


def _rotation(view: View, rope: Rope) -> Iterator[Finding]:
    layer = view.layer(rope.frame)
    if rope.style == "interleaved":
        yield Finding("neighbouring elements form the rotated pairs", rope.where, layer, usual=False)
    shape = view.index.nodes[rope.input].shape
    if shape is not None and unwrap(shape[-1]) != unwrap(rope.table.rotary_dim):
        text = f"{unwrap(rope.table.rotary_dim)} of the {unwrap(shape[-1])} elements of a head are rotated"
        yield Finding(text, rope.where, layer, usual=False)


def _learned(view: View) -> Iterator[Finding]:
    """Embeddings that are not looked up by token ids."""
    for node in view.index.in_order("embedding"):
        path = view.parameter(node.args[1])
        reads_tokens = any(
            source.op == "input" for each in refs(node.args[0]) for source in view.back(each, lambda _: False)
        )
        if path is not None and not reads_tokens:
            yield Finding(f"learned positions ({inside_layer(path)})", node.where, None, usual=False)
