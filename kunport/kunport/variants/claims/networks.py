"""What the facts of MLPs and experts explain: projections, activations, products, and the sum of what they make."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from kunport_codegen.expression import unwrap

from kunport.variants.claims.places import follow, moved
from kunport.variants.claims.products import of_gate, of_products
from kunport.variants.feedforward import MLP, mlps
from kunport.variants.gates import gate_of_mlp
from kunport.variants.model import VIEWS, Layer


def of_mlps(layer: Layer) -> Iterator[int]:
    """The MLP that is stated, and those like it; beside experts every one, since they are stated as shared experts."""
    found, multiplied = mlps(layer), set[int]()
    for each in found:
        if each.products & multiplied:  # the other half of one that is stated, activated as well
            continue
        multiplied |= each.products
        if layer.router_parts or _form(each) == _form(found[0]):
            yield from of_products(layer.model, each.projections)
            yield from each.products
            yield from each.fact.nodes
            yield from _moves(layer, each)
        if layer.facts.get("Experts") and (gate := gate_of_mlp(layer, each)) is not None:
            yield from of_gate(layer, gate)


def _form(mlp: MLP) -> tuple[object, ...]:
    return mlp.fact.name, mlp.gated, mlp.fused, unwrap(mlp.size)


def _moves(layer: Layer, mlp: MLP) -> Iterator[int]:
    """What takes the halves of one projection apart, if every token keeps its own and a half is a half."""
    sources = [each.node.id for each in mlp.before]
    for half in (mlp.fact.input, *mlp.others):
        if not sources or not moved(layer.model, half, sources, mlp.same):
            continue
        places = follow(layer.model, half, sources, mlp.same)
        if places is None:
            continue
        shape, columns = places.tokens.shape, places.columns.reshape(-1, places.columns.shape[-1])
        steps = set(np.diff(columns[0]).tolist())
        rows = int(np.prod(shape[:-1]))
        if places.keep_tokens(rows, tuple(range(len(shape) - 1))) and len(steps) <= 1 and np.all(columns == columns[0]):
            yield from places.through


def of_routers(layer: Layer) -> Iterator[int]:
    """The products that make the logits of routers."""
    weights = {fact.router_weight for fact in layer.facts.get("Experts", [])}
    for node in layer.nodes:
        if any(layer.model.parameter(arg) in weights for arg in node.args):
            yield node.id


def of_sums(layer: Layer) -> Iterator[int]:
    """The additions of what experts and MLPs of one layer make, behind views, casts and gates."""
    model = layer.model
    made = {fact.output for fact in layer.facts.get("Experts", [])}
    made |= {each.after for each in mlps(layer) if each.after is not None}
    reached = set(made)
    for node in layer.nodes:
        reads = [each for each in model.reads(node) if not model.still(each)]
        if node.op == "add":
            if len(reads) == 2 and all(each in reached for each in reads):
                reached.add(node.id)
                yield node.id
        elif (node.op in VIEWS or node.op == "mul") and any(each in reached for each in reads):
            reached.add(node.id)
