"""The MLPs of a layer: activations outside of experts and mixers, and the projections around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Activation, Number
from kunport_codegen.graph import Node, refs
from kunport_codegen.recognition.index import is_cast

from kunport.variants.fact import Fact
from kunport.variants.model import Layer
from kunport.variants.onward import walk_on
from kunport.variants.paths import sites, walk_back
from kunport.variants.projections import Projection, adds_bias, projection
from kunport.variants.stream import stream

_CHANGING = frozenset(("clamp", "clamp_min", "clamp_max", "minimum", "maximum", "round", "neg", "abs", "where"))


@dataclass(frozen=True, slots=True)
class MLP:
    """An activation with what surrounds it.

    ``gated``: it multiplies another projection; ``fused``: both come from one. ``size`` is the width between the
    projections, ``projections`` are those before and after, ``products`` the ids of the multiplications between.
    ``before`` are the ones before, ``others`` what is multiplied by the activation's result, ``same`` as `Way` has it,
    ``after`` the id of what the last one makes, its bias included, ``changed`` an operator that makes something else of
    the activation's result.
    """

    fact: Activation
    gated: bool
    fused: bool
    size: Number
    projections: tuple[Projection, ...]
    products: frozenset[int] = frozenset()
    before: tuple[Projection, ...] = ()
    others: tuple[int, ...] = ()
    same: Mapping[int, int] = field(default_factory=dict)
    after: int | None = None
    changed: Node | None = None


def mlps(layer: Layer) -> list[MLP]:
    """The MLPs outside of the layer's experts, the widest first."""
    if "mlps" not in layer.memo:
        experts = {node for fact in layer.facts.get("Experts", []) for node in fact.nodes}
        mixing = _mixers(layer)
        live = layer.model.index.live
        facts = [
            fact
            for fact in layer.facts.get("Activation", []) or _bounded(layer)
            if fact.output not in experts and fact.output in live and not _inside(layer.place(fact.frame), mixing)
        ]
        found = [each for fact in facts if (each := _around(layer, fact)) is not None]
        layer.memo["mlps"] = sorted(found, key=lambda each: -int(unwrap(each.size)))
    known: list[MLP] = layer.memo["mlps"]
    return known


def _bounded(layer: Layer) -> list[Activation]:
    """The tanh and sigmoid of a layer as activations: where it has another one, they are something else."""
    found = [node for node in layer.nodes if node.op in ("tanh", "sigmoid") and node.id not in layer.model.covered]
    return [
        Activation(node.op, node.args[0].id, node.id, frozenset((node.id,)), node.frame, node.where) for node in found
    ]


def _mixers(layer: Layer) -> set[str]:
    """The paths of the modules that mix tokens, inside the layer."""
    found = {layer.place(site.frame.id) for site in sites(layer)}
    found |= {layer.place(fact.frame) for fact in layer.facts.get("Mixer", [])}
    return (found | {layer.part(node.frame) for node in layer.unread_mixing}) - {""}


def _inside(path: str, modules: set[str]) -> bool:
    return any(path == each or path.startswith(f"{each}.") for each in modules)


def _around(layer: Layer, fact: Activation) -> MLP | None:
    """The MLP of an activation; None where no projection makes its operand or reads its result."""
    index = layer.model.index
    way = walk_back(layer, fact.input)
    before = way.projections
    after = walk_on(layer, fact.output)
    shape = index.nodes[fact.output].shape
    if not before or not after.projections or shape is None:
        return None
    factors, changed = _factors(layer, fact)
    ways = [walk_back(layer, other) for _, other in factors]
    others = [each.projections for each in ways]
    gated = any(others)
    weights = {each.weight for other in others for each in other}
    fused = bool(weights & {each.weight for each in before})
    projections = {each.node.id: each for each in (*before, *(one for other in others for one in other))}
    projections |= {each.node.id: each for each in after.projections}
    products = frozenset(product for product, _ in factors)
    same = dict(way.same)
    for each in ways:
        same |= each.same
    first = {each.node.id: each for each in (*before, *(one for other in others for one in other))}
    made = after.projections[-1]
    user = index.user(made.node) if adds_bias(layer.model, made.node) else None
    made_id = made.node.id if user is None else user.id
    return MLP(
        fact,
        gated,
        fused,
        shape[-1],
        tuple(projections.values()),
        products,
        before=tuple(first.values()),
        others=tuple(other for _, other in factors),
        same=same,
        after=made_id,
        changed=changed,
    )


def _factors(layer: Layer, fact: Activation) -> tuple[list[tuple[int, int]], Node | None]:
    """The products of the activation's result before the next projection, each with its other operand.

    The second result is an operator that makes something else of it first, so that its products may be hidden.
    """
    index, pending, found = layer.model.index, [fact.output], list[tuple[int, int]]()
    changed: Node | None = None
    while pending:
        current = pending.pop()
        for user in (index.nodes.get(each) for each in index.users.get(current, ())):
            if user is None or projection(layer.model, user) is not None:
                continue
            if user.op == "mul":
                found.extend((user.id, each) for each in refs(user.args) if each != current)
            elif is_cast(user) or user.op == "reshape":
                pending.append(user.id)
            elif user.op in _CHANGING:
                changed = changed or user
    return found, None if found else changed


def hidden_mlp(layer: Layer) -> Fact | None:
    """Why the MLP of a layer cannot be told, where the stream has one and no activation was recognised; else None."""
    if layer.unknowns:
        return layer.model.opaque(layer.unknowns[0])
    found = stream(layer)
    if found.lost:
        return Fact(None, found.where, reason=f"{found.where}: {found.lost}")
    if "M" not in found.order:
        return None
    node = _telling(layer) or found
    return Fact(None, node.where, reason=f"{node.where}: an MLP whose activation is none that kunport knows")


def _telling(layer: Layer) -> Node | None:
    """The last projection of the layer, which names its MLP by its line."""
    return next((node for node in reversed(layer.nodes) if projection(layer.model, node) is not None), None)
