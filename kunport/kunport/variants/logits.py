"""The way back from the logits: caps and factors, the head, and factors on what it reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Number
from kunport_codegen.graph import Location, Node, Ref, refs

from kunport.variants.model import VIEWS, Model
from kunport.variants.projections import Projection, projection
from kunport.variants.stream import scaled

_UNCHANGED = frozenset(("to", "float", "getitem", "reshape", "flatten", "item", "transpose", "permute", "dropout"))


@dataclass(slots=True)
class Logits:
    """What the way holds.

    ``head`` is the projection to the vocabulary, ``learned`` whether a parameter multiplies the logits, ``lost`` why
    the way is not understood, ``explained`` the ids of the operators that caps and factors are.
    """

    where: Location
    head: Projection | None = None
    factors: list[Number] = field(default_factory=list)
    softcap: Number | None = None
    learned: bool = False
    lost: str = ""
    explained: set[int] = field(default_factory=set)


def logits(model: Model) -> Logits:
    """The way from the logits to the last norm, read once."""
    if "logits" not in model.memo:
        model.memo["logits"] = _read(model)
    found: Logits = model.memo["logits"]
    return found


def _read(model: Model) -> Logits:
    found = Logits(model.graph.modules[""].where)
    node = model.index.nodes.get(next(refs(model.graph.output), -1))
    while node is not None and node.id not in model.norm_of_output and model.layer_of(node) is None:
        if found.head is None and (head := projection(model, node)) is not None:
            found.head, found.where = head, node.where
            node = _activation(model, node)
            continue
        behind = _before(model, node, found)
        if behind is None:
            if found.head is None:
                found.where = node.where
                found.lost = str(node.args[0]) if node.op == "unknown" else f"{node.op} stands after the head"
            break
        if node.op not in VIEWS:  # which need no explanation, or scramble the tensor
            found.explained.add(node.id)
        node = behind
    if found.head is None:
        found.lost = found.lost or "the logits come from no product with a parameter"
        found.head = _last_projection(model)
    return found


def _last_projection(model: Model) -> Projection | None:
    """The last product with a parameter behind the layers that the logits come from."""
    nodes = model.index.ancestors(*refs(model.graph.output))
    last = max((node.id for node in nodes if model.layer_of(node) is not None), default=-1)
    outside = (projection(model, node) for node in reversed(nodes) if node.id > last and model.layer_of(node) is None)
    return next((each for each in outside if each is not None), None)


def _before(model: Model, node: Node, found: Logits) -> Node | None:
    """The tensor before an operator that the way knows, which notes what it means."""
    capped = None if found.head is not None else softcap(model, node)
    if capped is not None:
        tensor, found.softcap, inside = capped
        found.explained |= inside
        return tensor
    if (product := scaled(model, node)) is not None:
        found.factors.append(product[1])
        return product[0]
    if node.op == "mul" and found.head is None and model.parameter(node.args[1]) is not None:
        found.learned = True
        return model.index.producer(node.args[0])
    behind = model.index.producer(node.args[0]) if node.op in _UNCHANGED else None
    if behind is None or behind.shape is None or node.shape is None:
        return behind
    return behind if unwrap(behind.shape[-1]) == unwrap(node.shape[-1]) else None  # all words, or all of a token


def softcap(model: Model, node: Node) -> tuple[Node, Number, set[int]] | None:
    """The x and c of ``c * tanh(x / c)``, and the ids of the two operators inside."""
    outer = scaled(model, node)
    if outer is None or node.op != "mul" or outer[0].op != "tanh":
        return None
    inner = model.index.producer(outer[0].args[0])
    parts = scaled(model, inner) if inner is not None else None
    if inner is None or parts is None or abs(float(unwrap(parts[1])) * float(unwrap(outer[1])) - 1) > 1e-9:
        return None
    return parts[0], outer[1], {outer[0].id, inner.id}


def _activation(model: Model, node: Node) -> Node | None:
    """The operand of a projection that is not its parameter."""
    operands = [model.index.producer(each) for each in node.args if isinstance(each, Ref)]
    return next((each for each in operands if each is not None and model.parameter(Ref(each.id)) is None), None)
