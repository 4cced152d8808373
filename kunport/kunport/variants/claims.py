"""Which operators the stated facts explain, so that what none of them explains can be named.

A fact states what its operators do. An operator that reads a parameter, or that computes something else than a sum or
a move of elements, and that no fact covers, may be a behaviour that no fact states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Node

from kunport.variants.feedforward import MLP, mlps
from kunport.variants.gates import Gate, gate_of, gate_of_mlp
from kunport.variants.logits import logits
from kunport.variants.model import VIEWS, Layer, Model
from kunport.variants.paths import Projection, Site, projections_of, sites
from kunport.variants.stream import stream
from kunport.variants.tokens import embedded

# Operators that move elements, choose a type, add, or stand for what comes from outside.
_PLAIN = frozenset(
    (
        *("input", "parameter", "state", "mask", "item", "add", "sub", "neg", "to", "type_as", "float", "zeros_like"),
        *(
            "reshape",
            "view",
            "transpose",
            "t",
            "T",
            "mT",
            "permute",
            "expand",
            "unsqueeze",
            "squeeze",
            "flatten",
            "unflatten",
            "broadcast_to",
        ),
        *("getitem", "setitem", "split", "chunk", "unbind", "cat", "stack", "repeat", "repeat_interleave", "pad"),
    )
)
# Operators that choose rows by data, as routers do in one spelling or another.
_CHOOSING = frozenset(
    ("topk", "argmax", "argsort", "sort", "one_hot", "nonzero", "index_add", "scatter", "gather", "loop")
)


def unexplained(model: Model, layer: Layer | None) -> list[Node]:
    """The operators of a layer (None: of what lies outside of layers) that no fact explains, in order; found once."""
    memo = model.memo if layer is None else layer.memo
    if "unexplained" not in memo:
        claimed = model.covered.union(_of_model(model) if layer is None else _of_layer(layer))
        nodes = model.outside if layer is None else layer.nodes
        memo["unexplained"] = [node for node in nodes if node.id not in claimed and _matters(model, node)]
    found: list[Node] = memo["unexplained"]
    return found


def _matters(model: Model, node: Node) -> bool:
    """Whether an operator is not understood, applies a parameter, or computes from data what is no sum."""
    if node.op == "unknown":
        return True
    if model.index.constant(node.id):
        return False
    if applies_parameter(model, node):
        return True
    if node.op in ("mul", "div"):
        return sum(not model.index.constant(each) for each in model.reads(node)) > 1
    return node.op not in _PLAIN


def applies_parameter(model: Model, node: Node) -> bool:
    """Whether an operator reads a parameter itself, and does more than view it in another way."""
    return node.op not in VIEWS and any(model.parameter(arg) is not None for arg in node.args)


def choosing(model: Model, layer: Layer) -> list[Node]:
    """What may choose experts: operators that no fact explains and that pick rows by what a token is."""
    return [node for node in unexplained(model, layer) if node.op in _CHOOSING]


def _of_layer(layer: Layer) -> Iterator[int]:
    for site in sites(layer):
        yield from _of_site(site)
    yield from _of_mlps(layer)
    yield from _of_routers(layer)
    yield from stream(layer).explained


def _of_site(site: Site) -> Iterator[int]:
    layer = site.layer
    for way in (site.query, site.key, site.value):
        yield from _products(layer.model, (*way.projections, *way.deeper))
        yield from way.added
        yield from (node.id for node in way.clips)
    yield from _products(layer.model, site.onward.projections)
    if (gate := gate_of(site)) is not None:
        yield from _of_gate(layer, gate)
    if site.fact.selection is not None:
        yield from _of_selection(layer, site.fact.selection)
    if site.onward.differential is not None:  # the factor on the second part, which comes from parameters alone
        yield from layer.model.reads(site.onward.differential)
        yield from _of_parameters(layer)


def _of_gate(layer: Layer, gate: Gate) -> Iterator[int]:
    yield from (gate.product.id, gate.source.id)
    yield from _products(layer.model, projections_of(layer, gate.source.id))


def _of_parameters(layer: Layer) -> set[int]:
    """What a layer computes from its parameters alone."""
    model, found = layer.model, set[int]()
    for node in layer.nodes:
        reads = model.reads(node)
        if reads and all(each in found or _is_parameter(model, each) or model.index.constant(each) for each in reads):
            found.add(node.id)
    return found


def _is_parameter(model: Model, identifier: int) -> bool:
    node = model.index.nodes.get(identifier)
    return node is not None and node.op == "parameter"


def _of_selection(layer: Layer, choice: int) -> set[int]:
    """What a choice of keys is computed from in its layer: the indexer, which is stated as a whole."""
    model, found, pending = layer.model, set[int](), [choice]
    while pending:
        node = model.index.nodes.get(pending.pop())
        if node is not None and node.id not in found and model.layer_of(node) is layer:
            found.add(node.id)
            pending.extend(model.reads(node))
    return found


def _products(model: Model, projections: Iterable[Projection]) -> Iterator[int]:
    """Projections, each with the bias that is added to its result."""
    for each in projections:
        yield each.node.id
        user = model.index.user(each.node) if each.bias else None
        if user is not None and user.op == "add":
            yield user.id


def _of_mlps(layer: Layer) -> Iterator[int]:
    """The MLP that is stated, and those like it; beside experts every one, since they are stated as shared experts."""
    found = mlps(layer)
    for each in found:
        if layer.router_parts or _form(each) == _form(found[0]):
            yield from _products(layer.model, each.projections)
            yield from each.products
        if layer.facts.get("Experts") and (gate := gate_of_mlp(layer, each)) is not None:
            yield from _of_gate(layer, gate)


def _form(mlp: MLP) -> tuple[object, ...]:
    return mlp.fact.name, mlp.gated, mlp.fused, unwrap(mlp.size)


def _of_routers(layer: Layer) -> Iterator[int]:
    weights = {fact.router_weight for fact in layer.facts.get("Experts", [])}
    for node in layer.nodes:
        if any(layer.model.parameter(arg) in weights for arg in node.args):
            yield node.id


def _of_model(model: Model) -> Iterator[int]:
    head = logits(model)
    if head.head is not None:
        yield from _products(model, [head.head])
    yield from head.explained
    yield from embedded(model).explained
