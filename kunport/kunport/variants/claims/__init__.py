"""Which operators the stated facts explain, so that what none of them explains can be named.

A fact states what its operators do. Every operator has to belong to one, but for views of a tensor, casts that round
as the model's type does, and what depends on sizes and masks alone, which does nothing until something reads it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kunport_codegen.expression import Scalar, unwrap
from kunport_codegen.facts import Number
from kunport_codegen.graph import Node
from kunport_codegen.recognition.index import number

from kunport.variants.claims.attention import of_site
from kunport.variants.claims.networks import of_mlps, of_routers, of_sums
from kunport.variants.claims.products import of_products
from kunport.variants.claims.views import inserts, rounds, scrambles, swaps, truncates
from kunport.variants.logits import logits
from kunport.variants.model import TRANSPOSED, VIEWS, Layer, Model
from kunport.variants.paths import sites
from kunport.variants.stream import stream
from kunport.variants.tokens import embedded

# Operators that choose rows by data, as routers do in one spelling or another.
_CHOOSING = frozenset(
    ("topk", "argmax", "argsort", "sort", "one_hot", "nonzero", "index_add", "scatter", "gather", "loop")
)
# Operators that may leave a tensor as it is, and the number with which they do.
_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1}
# Operators that stand for what comes from outside, or that name one of several results.
_GIVEN = frozenset(("input", "parameter", "state", "mask", "item"))


def unexplained(model: Model, layer: Layer | None) -> list[Node]:
    """The operators of a layer (None: of what lies outside of layers) that no fact explains, in order; found once."""
    memo = model.memo if layer is None else layer.memo
    if "unexplained" not in memo:
        memo["unexplained"] = [node for node in _unclaimed(model, layer) if not _neutral(node)]
    found: list[Node] = memo["unexplained"]
    return found


def silencing(model: Model, layer: Layer | None) -> list[Number]:
    """The numbers for which operators do nothing that a fact has to explain, as the model's configuration is."""
    found = (node.args[1] for node in _unclaimed(model, layer) if _neutral(node))
    return [each for each in found if isinstance(each, Scalar)]


def _unclaimed(model: Model, layer: Layer | None) -> list[Node]:
    memo = model.memo if layer is None else layer.memo
    if "unclaimed" not in memo:
        claimed = model.stated.union(_of_model(model) if layer is None else _of_layer(layer))
        nodes = model.outside if layer is None else layer.nodes
        memo["unclaimed"] = [
            node for node in nodes if rounds(model, node) or (node.id not in claimed and _matters(model, node))
        ]
    found: list[Node] = memo["unclaimed"]
    return found


def _matters(model: Model, node: Node) -> bool:
    """Whether an operator has to be explained: all do but views, casts and what depends on sizes and masks alone."""
    moving = scrambles(model, node) or swaps(model, node) or truncates(model, node)
    viewed = inserts(node) or (node.op in VIEWS and not moving)
    return node.op == "unknown" or not (node.op in _GIVEN or viewed or model.still(node.id))


def _neutral(node: Node) -> bool:
    """Whether an operator adds nothing, or multiplies by one."""
    if node.op not in _NEUTRAL or len(node.args) != 2:
        return False
    value = number(node.args[1])
    return value is not None and unwrap(value) == _NEUTRAL[node.op]


def applies_parameter(model: Model, node: Node) -> bool:
    """Whether an operator reads a parameter itself, and does more than view it in another way."""
    return node.op not in TRANSPOSED and any(model.parameter(arg) is not None for arg in node.args)


def choosing(model: Model, layer: Layer) -> list[Node]:
    """What may choose experts: operators that no fact explains and that pick rows by what a token is."""
    return [node for node in unexplained(model, layer) if node.op in _CHOOSING]


def _of_layer(layer: Layer) -> Iterator[int]:
    for site in sites(layer):
        yield from of_site(site)
    yield from of_mlps(layer)
    yield from of_routers(layer)
    yield from of_sums(layer)
    yield from stream(layer).explained


def _of_model(model: Model) -> Iterator[int]:
    head = logits(model)
    if head.head is not None:
        yield from of_products(model, [head.head])
    yield from head.explained
    yield from embedded(model).explained
