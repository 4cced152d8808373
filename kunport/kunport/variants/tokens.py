"""The way of the token ids to the first layer: embeddings, positions, factors and norms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from kunport_codegen.expression import Scalar, symbols_of, unwrap
from kunport_codegen.facts import Norm, Number
from kunport_codegen.graph import Location, Node, Ref
from kunport_codegen.recognition.evaluate import UnevaluableError, evaluate

from kunport.variants.entry import entry
from kunport.variants.fact import Fact, depending
from kunport.variants.model import VIEWS, Model
from kunport.variants.stream import scaled


@dataclass(slots=True)
class Embedded:
    """What the first layer reads.

    ``tokens`` is the look-up by token ids, ``factors`` what its result is multiplied by, ``norms`` what normalises it;
    ``positions`` how positions are made, where, and the frame of that; ``unknown`` a node that is not understood;
    ``explained`` the ids of the look-ups, the factors and the additions of positions, ``by_position`` those of look-ups
    by position, ``sums`` those of the additions of positions.
    """

    tokens: Node | None
    factors: list[tuple[Number, Location]]
    norms: list[Norm]
    positions: tuple[str, Location, int] | None
    unknown: Node | None
    explained: set[int] = field(default_factory=set)
    by_position: set[int] = field(default_factory=set)
    sums: set[int] = field(default_factory=set)


def embedded(model: Model) -> Embedded:
    """The way to the first layer, read once."""
    if "embedded" not in model.memo:
        model.memo["embedded"] = _read(model)
    found: Embedded = model.memo["embedded"]
    return found


def _read(model: Model) -> Embedded:
    called = model.runs[model.layers[0].stack] if model.layers else []
    first = min(called, key=lambda run: run[1].id)[0] if called else None
    start = next((entry(layer) for layer in model.layers if layer.number == first), None)
    nodes = [] if start is None else [each for each in model.index.ancestors(start) if model.layer_of(each) is None]
    hidden = (node for node in nodes if node.op == "unknown" or model.hides_norm(node))
    found = Embedded(None, [], [], None, next(hidden, None))
    for node in nodes:
        if node.op == "embedding" and isinstance(node.args[0], Ref) and isinstance(node.args[1], Ref):
            if _by_tokens(model, node):
                found.tokens = found.tokens or node
                found.explained.add(found.tokens.id)  # another look-up by the same ids is another thing
            else:
                found.explained.add(node.id)
                found.by_position.add(node.id)
                if not _counts_up(model, node.args[0].id):
                    found.unknown = found.unknown or node
                computed = model.index.constant(node.args[1].id)
                found.positions = "sinusoidal" if computed else "learned", node.where, node.frame
        elif node.op in ("cos", "sin") and found.positions is None:
            found.positions = "sinusoidal", node.where, node.frame
        elif node.op == "add" and found.tokens is not None and (kind := _added(model, node, found)) is not None:
            found.positions = found.positions or (kind, node.where, node.frame)
            found.explained.add(node.id)
            found.sums.add(node.id)
            found.explained.update(each for each in model.reads(node) if _first_rows(model, model.index.nodes[each]))
        elif (product := scaled(model, node)) is not None and _holds_tokens(found, product[0]):
            found.factors.append((product[1], node.where))
            if not any(each.id in found.sums for each in model.index.ancestors(product[0].id)):
                found.explained.add(node.id)  # else it multiplies the positions, too, which no key says
        elif (norm := model.norm_of_output.get(node.id)) is not None:
            found.norms.append(norm)
    return found


def _added(model: Model, node: Node, found: Embedded) -> str | None:
    """What is added to the embedding, where that is no part of it: positions, by what they are made of."""
    for one, other in (node.args[:2], node.args[1::-1]):
        if isinstance(one, Ref) and isinstance(other, Ref) and found.tokens in model.index.ancestors(one.id):
            if not _of_each_position(model.index.nodes[other.id]):
                return None
            made = {each.op for each in model.index.ancestors(other.id)}
            if "input" in made:
                looked_up = model.index.strip(model.index.producer(other), *VIEWS)
                if looked_up is not None and looked_up.id in found.by_position and found.positions is not None:
                    return found.positions[0]
                return None
            return "learned" if "parameter" in made else "sinusoidal" if made & {"sin", "cos"} else None
    return None


def _of_each_position(node: Node) -> bool:
    """Whether a tensor has a row for each token, not one for all."""
    rows = node.shape[-2] if node.shape is not None and len(node.shape) > 1 else 1
    return isinstance(rows, Scalar) and bool(symbols_of(rows.expr))


def _first_rows(model: Model, node: Node) -> bool:
    """Whether a tensor is the first rows of a parameter: positions without a look-up."""
    if node.op != "getitem" or model.parameter(node.args[0]) is None:
        return False
    items = node.args[1] if isinstance(node.args[1], list | tuple) else (node.args[1],)
    slices = [each for each in items if isinstance(each, slice)]
    whole = len(slices) == len(items) - items.count(Ellipsis)
    return whole and all(unwrap(each.start) in (None, 0) and unwrap(each.step) in (None, 1) for each in slices)


def _by_tokens(model: Model, node: Node) -> bool:
    """Whether a look-up is by the token ids themselves, not by positions counted from them."""
    ids = model.index.ancestors(node.args[0].id)
    return any(each.op == "input" for each in ids) and not any(each.op in ("cumsum", "arange") for each in ids)


def _counts_up(model: Model, places: int) -> bool:
    """Whether a look-up is by the position, from whichever row on: not by numbers that run back, repeat or leave out.

    Only what the length alone decides is evaluated: positions that are counted from the ids are taken as said.
    """
    if not model.index.constant(places):
        return True
    try:
        found = evaluate(model.index.nodes, places, {})
    except UnevaluableError:
        return False
    return bool(np.all(np.diff(found, axis=-1) == 1))


def _holds_tokens(found: Embedded, node: Node) -> bool:
    """Whether a tensor is the look-up's result, as yet only multiplied."""
    return found.tokens is not None and (node.id == found.tokens.id or node.shape == found.tokens.shape)


def embedded_positions(model: Model) -> Fact:
    """``learned`` or ``sinusoidal`` where a vector of the position is added to the embedding, else null."""
    found = embedded(model)
    where = found.tokens.where if found.tokens is not None else model.graph.modules[""].where
    if found.unknown is not None:
        return model.opaque(found.unknown)
    if found.tokens is None:
        return lost(where)
    if found.positions is None:
        return Fact(None, where)
    kind, where, frame = found.positions
    stated = {"": model.fact(kind, where, r"positions?$")}
    return depending(stated, model.chosen(frame))[""]


def lost(where: Location) -> Fact:
    """What is said of embeddings where no way leads from them to the layers."""
    return Fact(None, where, reason=f"{where}: no look-up by token ids leads to the first layer")


def embedding_scale(model: Model) -> Fact:
    """The product of the factors on token embeddings, 1.0 without any."""
    found = embedded(model)
    where = found.factors[0][1] if found.factors else found.tokens.where if found.tokens else None
    if found.unknown is not None:
        return model.opaque(found.unknown)
    if where is None:
        return lost(model.graph.modules[""].where)
    value = 1.0
    for factor, _ in found.factors:
        value *= float(unwrap(factor))
    sources = [factor for factor, _ in found.factors]
    return model.fact(value, where, r"scale_?emb|emb\w*_(scale|multiplier)|mup", *sources)
