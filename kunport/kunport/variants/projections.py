"""Linear layers, whatever they are spelled as: products of a tensor with a parameter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kunport_codegen.expression import Scalar, unwrap
from kunport_codegen.graph import Node, Ref
from kunport_codegen.recognition.index import sizes

from kunport.variants.model import Model

_PRODUCTS = frozenset(("linear", "addmm", "matmul", "mm", "einsum", "bmm", "baddbmm"))


@dataclass(frozen=True, slots=True)
class Projection:
    """A product with a parameter: the node, the parameter's path, its module's path, and whether a bias is added."""

    node: Node
    weight: str
    owner: str
    bias: bool


def projection(model: Model, node: Node) -> Projection | None:
    """The projection that a node is; None for any other, a product of two activations included."""
    if node.op not in _PRODUCTS:
        return None
    if node.op in ("addmm", "baddbmm", "linear"):
        position = 2 if node.op != "linear" else 1
        if len(node.args) <= position:
            return None
        path = model.parameter(node.args[position]) or _computed_weight(model, node.args[position])
        bias = node.op != "linear" or (len(node.args) > 2 and node.args[2] is not None) or _biased(model, node)
    else:
        bias = _biased(model, node)
        path = next((found for each in model.reads(node) if (found := model.parameter(Ref(each))) is not None), None)
    return None if path is None else Projection(node, path, path.rpartition(".")[0], bias)


def _computed_weight(model: Model, weight: object) -> str | None:
    """The parameter that a weight is computed from, the largest of several of one module; None if of data too."""
    if not isinstance(weight, Ref):
        return None
    sources = [node for node in model.index.ancestors(weight.id) if node.op in ("parameter", "input", "unknown")]
    owners = {str(node.args[0]).rpartition(".")[0] for node in sources}
    if len(owners) != 1 or any(node.op != "parameter" for node in sources):
        return None
    return str(max(sources, key=lambda node: math.prod(unwrap(size) for size in node.shape or ())).args[0])


def _biased(model: Model, node: Node) -> bool:
    """Whether a bias is added to a product, at once or to a sum with other branches, as layers do that hand it on."""
    user: Node | None = node
    while user is not None and (user is node or user.op in ("add", "to")):
        if adds_bias(model, node, user):
            return True
        user = model.index.user(user)
    return False


def adds_bias(model: Model, node: Node, to: Node | None = None) -> bool:
    """Whether a parameter with a number for each element is added to a product and nothing else reads that.

    Args:
        model: what the product is in.
        node: the product.
        to: the sum with the product that the parameter is added to, where it is not the product itself.
    """
    user = model.index.user(to or node)
    if user is None or user.op != "add" or node.shape is None:
        return False
    weights = [path for each in model.reads(node) for path in _parameters_of(model, each)]
    owners = {owner for path in weights for owner in (_owner(path), _owner(_owner(path)))}  # of the product, or around
    for arg in user.args:
        path, added = model.parameter(arg), model.index.producer(arg)
        if path is not None and _owner(path) in owners and math.prod(sizes(added) or ()) == unwrap(node.shape[-1]):
            return True
    return False


def _parameters_of(model: Model, identifier: int) -> Iterator[str]:
    """The parameters that an operand of a product is, or is computed from."""
    path = model.parameter(Ref(identifier)) or _computed_weight(model, Ref(identifier))
    if path is not None:
        yield path


def _owner(path: str) -> str:
    return path.rpartition(".")[0]


def bias_sources(model: Model, projections: Iterable[Projection], switches: str) -> tuple[str, list[Scalar]]:
    """What says whether projections have a bias, as `Model.fact` takes it.

    Torch's own linear layers hold the flag. For others it is a decision on a field that the pattern finds.
    """
    owners = [model.graph.modules.get(each.owner) for each in projections]
    held = [owner.attributes.get("has_bias", "") for owner in owners if owner is not None]
    return switches if "" in held else "", [each for each in held if isinstance(each, Scalar)]
