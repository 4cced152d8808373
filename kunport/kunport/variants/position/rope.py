"""Rotary positions: what is rotated, and by what angles.

`position.pairing`: `half` pairs element i with i + dims / 2 ("neox"), `interleaved` 2i with 2i + 1; of two
elements that turn both are the same, so that it cannot be told. `position.dims` elements of a head are rotated,
`position.base` is theta in `theta ** (-2i / dims)`, and `position.scaling` says how frequencies are changed for longer
contexts: `default` (not at all), `linear`, `dynamic`, `yarn` (arXiv:2309.00071), `llama3`, `longrope`
(arXiv:2402.13753) or what else the configuration calls it.
"""

from __future__ import annotations

import numpy as np
from kunport_codegen.expression import Scalar, symbols_of, unwrap
from kunport_codegen.facts import RopeTable
from kunport_codegen.recognition.tables import frequencies_of

from kunport.variants.fact import Fact, depending
from kunport.variants.model import Model
from kunport.variants.paths import Site
from kunport.variants.turned import differing
from kunport.variants.variant import ABSENT, Example, Found, Variant

# Operators that decide how many frequencies a table has.
_MAKING = frozenset(("arange", "linspace", "zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "getitem"))
KEYS = {
    "position.pairing": "half or interleaved",
    "position.dims": "elements of a head that are rotated",
    "position.base": "theta",
    "position.scaling": "how frequencies are scaled",
}


def read(site: Site) -> Found:
    """The four of the rotation; nothing without one, opaque where it is not recognised, or queries and keys differ."""
    if different := differing(site):
        where = site.fact.where
        yield from ((key, Fact(None, where, reason=f"{where}: {different}")) for key in KEYS)
        return
    if not site.query.ropes:
        hidden = [*site.query.angles, *site.key.angles][:1]
        yield from ((key, site.layer.model.opaque(node)) for node in hidden for key in KEYS)
        return
    model, rope = site.layer.model, site.query.ropes[0]
    theta = rope.table.theta
    base = Scalar(float(unwrap(theta)), theta.expr) if isinstance(theta, Scalar) else theta
    dims = _dims(model, rope.table)
    if dims > 2:
        yield "position.pairing", model.fact(rope.style, rope.where, r"interleave")
    else:
        why = "with two elements that turn, both pairings are the same"
        yield "position.pairing", Fact(None, rope.where, reason=f"{rope.where}: {why}")
    yield "position.dims", model.fact(dims, rope.where, "", *_sizes(model, rope.table, dims))
    if rope.table.own and not rope.table.rope_type:
        node = model.index.nodes[rope.table.cos]
        yield "position.base", model.opaque(node, "frequencies that follow no formula that kunport knows")
        yield "position.scaling", model.opaque(node, "frequencies that follow no formula that kunport knows")
        return
    if isinstance(base, Scalar) and symbols_of(base.expr):
        node = model.index.nodes[rope.table.cos]
        yield "position.base", model.opaque(node, "the base changes with the length of the input")
    else:
        yield "position.base", model.fact(base, rope.table.where)
    lengths = [theta] if rope.table.rope_type == "dynamic" else []
    scaling = model.fact(rope.table.rope_type, rope.table.where, r"rope_type|rope_scaling", *lengths)
    frames = {model.index.nodes[each].frame for each in rope.table.nodes} if rope.table.own else set()
    yield from depending({"position.scaling": scaling}, set[str]().union(*map(model.chosen, frames))).items()


def _sizes(model: Model, table: RopeTable, dims: int) -> list[Scalar]:
    """What says how many elements turn: the size of the table, or what it is put together by where some stand still."""
    size = table.rotary_dim
    if isinstance(size, Scalar) and size.value == dims:
        return [size]
    made = [node for node in model.index.ancestors(table.cos) if node.op in _MAKING] if table.own else []
    held = [size, *(each for node in made for each in (*node.args, *node.kwargs.values()))]
    return [each for each in held if isinstance(each, Scalar) and not symbols_of(each.expr)]


def _dims(model: Model, table: RopeTable) -> int:
    """The elements that turn at all: twice the frequencies that are not 0."""
    key = f"dims {table.cos}"
    if key not in model.memo:
        model.memo[key] = 2 * int(np.count_nonzero(frequencies_of(table, model.graph.config)))
    dims: int = model.memo[key]
    return dims


VARIANT = Variant(
    keys=KEYS,
    scope="attention",
    read=read,
    examples=(
        Example("llama", "half", "position.pairing"),
        Example("glm4", "interleaved", "position.pairing"),
        Example("gpt_neox", 24, "position.dims"),
        Example("mistral", 128, "position.dims"),
        Example("gemma3_text", 10_000.0, "position.base", layer=0),
        Example("gemma3_text", 1_000_000.0, "position.base", layer=5),
        Example("llama", "default", "position.scaling", fields=("rope_parameters['rope_type']",)),
        Example("gpt2", ABSENT, "position.base"),
    ),
)
