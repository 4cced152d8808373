"""The way of an attention's operands: from the linear layers to query, key and value."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping
from dataclasses import dataclass, field

import numpy as np
from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Attention, Norm, Number, Rope
from kunport_codegen.graph import Frame, Node, Ref, refs
from kunport_codegen.recognition.evaluate import UnevaluableError, evaluate
from kunport_codegen.recognition.index import combine, is_cast, sizes, split_number

from kunport.variants.entry import entry
from kunport.variants.fact import Fact
from kunport.variants.model import Layer, Model
from kunport.variants.onward import Onward, walk_on
from kunport.variants.projections import Projection, projection


@dataclass(slots=True)
class Way:
    """What lies between the nearest projections and a tensor.

    Attributes:
        projections: the nearest, in order of execution; ``deeper`` those before them, up to the input of the mixer.
        norms: (norm, whether a rotation follows it).
        ropes, clips: rotations, and nodes that bound the values.
        latent: a norm between a nearer and a deeper projection.
        layers: indices of other layers that the tensor comes from.
        angles: nodes of cosines and sines that it depends on.
        unknown: a node on the way that is not understood; ``unread_norm`` one of a norm that was not recognised.
        bare: whether it comes from the layer's input without a projection between.
        factors: numbers that it is multiplied by, behind which no norm undoes that; ``scalings`` where.
        same: id -> id of the tensor whose elements it holds at the same places (a norm's result -> its input).
    """

    projections: list[Projection] = field(default_factory=list)
    deeper: list[Projection] = field(default_factory=list)
    norms: list[tuple[Norm, bool]] = field(default_factory=list)
    ropes: list[Rope] = field(default_factory=list)
    clips: list[Node] = field(default_factory=list)
    latent: bool = False
    layers: set[int] = field(default_factory=set)
    angles: list[Node] = field(default_factory=list)
    unknown: Node | None = None
    unread_norm: Node | None = None
    same: dict[int, int] = field(default_factory=dict)
    factors: list[Number] = field(default_factory=list)
    scalings: list[int] = field(default_factory=list)
    added: set[int] = field(default_factory=set)
    reached: bool = False

    @property
    def bare(self) -> bool:
        return self.reached and not self.projections

    @property
    def biased(self) -> bool:
        return bool(self.added) or any(each.bias for each in (*self.projections, *self.deeper))


# Operators whose result is a part or a view of what they read first.
_PARTS = (
    *("to", "reshape", "view", "transpose", "permute", "unsqueeze", "squeeze", "flatten", "unflatten", "expand"),
    *("getitem", "split", "chunk", "unbind", "item", "tensor_split"),
)
# Operators whose result is no multiple where what they read is multiplied.
_BENDING = frozenset(
    (
        *(
            "tanh",
            "sigmoid",
            "silu",
            "gelu",
            "elu",
            "selu",
            "softplus",
            "softmax",
            "exp",
            "log",
            "square",
            "sqrt",
            "pow",
        ),
        *(
            "sin",
            "cos",
            "clamp_min",
            "clamp_max",
            "hardtanh",
            "softsign",
            "mish",
            "erf",
            "sign",
            "round",
            "floor",
            "ceil",
        ),
    )
)


def walk_back(layer: Layer, start: int, ends: set[int] | None = None) -> Way:
    """The way of a tensor: to the nearest projections, and behind them as far as ``ends``, if any are given."""
    model, way = layer.model, Way()
    pending: list[tuple[int, int, bool]] = [(start, 0, False)]
    bent = set[int]()  # what an operator follows whose result is no multiple where what it reads is multiplied
    seen, normed, enters = set[int](), list[int](), entry(layer)
    while pending:
        current, depth, rotated = pending.pop()
        node = model.index.nodes.get(current)
        if node is None or current in seen:
            continue
        seen.add(current)
        if ends and current in ends:
            if not depth and model.layer_of(node) is None and not model.reads_tokens(current):  # angles of parameters
                way.angles.extend(_angles(model, current))
            continue
        before = len(pending)
        if current == enters and not depth:
            way.reached = True
            continue
        owner = model.layer_of(node)
        if owner is not layer:
            if owner is not None:
                way.layers.add(owner.number)
            elif not depth:
                way.angles.extend(_angles(model, current))
            continue
        if (norm := model.norm_of_output.get(current)) is not None:
            if depth:
                normed.append(norm.input)
            else:
                way.norms.append((norm, rotated))
            way.same[current] = norm.input
            pending.append((norm.input, depth, rotated))
        elif (rope := model.rope_of_output.get(current)) is not None:
            way.ropes.append(rope)
            way.same[current] = rope.input
            pending.append((rope.input, depth, True))
        elif (found := projection(model, node)) is not None:
            (way.deeper if depth else way.projections).append(found)
            if ends:
                pending.extend((each, depth + 1, rotated) for each in model.reads(node))
        else:
            _note(layer, way, node, depth, current in bent)
            pending.extend((each, depth, rotated) for each in model.reads(node))
        if current in bent or node.op in _BENDING:
            bent.update(each for each, *_ in pending[before:])
    way.projections.sort(key=lambda each: each.node.id)
    way.latent = any(_is_projected(layer, each, ends or set()) for each in normed)
    return way


def _is_projected(layer: Layer, tensor: int, ends: set[int]) -> bool:
    """Whether a projection of the layer makes a tensor, before ``ends``."""
    model, pending, seen = layer.model, [tensor], set[int]()
    while pending:
        current = pending.pop()
        node = model.index.nodes.get(current)
        if node is None or current in seen or current in ends or model.layer_of(node) is not layer:
            continue
        seen.add(current)
        if projection(model, node) is not None:
            return True
        pending.extend(model.reads(node))
    return False


def projections_of(layer: Layer, tensor: int) -> list[Projection]:
    """The nearest projections that a tensor comes from."""
    return walk_back(layer, tensor).projections


def _note(layer: Layer, way: Way, node: Node, depth: int, bent: bool) -> None:
    """What an operator on the way means for it; behind a ``bent`` one a factor is none of the scores."""
    model = layer.model
    if node.op == "unknown":
        way.unknown = node
    elif not depth and model.hides_norm(node):
        way.unread_norm = node
    elif node.op == "clamp":
        if not depth:
            way.clips.append(node)
    elif node.op in ("cos", "sin") and not depth:
        way.angles.append(node)
    if node.op == "add" and not depth:
        for one, other in (node.args[:2], node.args[1::-1]):
            if isinstance(one, Ref) and model.parameter(other) is not None:
                if _is_made(model, one):
                    way.added.add(node.id)
                way.same[node.id] = one.id
            elif isinstance(one, Ref) and isinstance(other, Ref) and _adds_no_place(layer, one, other):
                way.same[node.id] = one.id
    elif node.op == "clamp" or is_cast(node):
        way.same[node.id] = node.args[0].id
    elif node.op in ("mul", "div") and (parts := split_number(node, model.index.producer)) is not None:
        way.same[node.id] = parts[0].id
        if not depth and not bent and not way.norms and not model.index.constant(node.id):
            way.scalings.append(node.id)
            way.factors.append(parts[1] if node.op == "mul" else combine("div", 1.0, parts[1]))
    elif node.op == "mul" and (scaled := _scaled(model, node)) is not None:
        way.same[node.id] = scaled.id


def _is_made(model: Model, ref: Ref) -> bool:
    """Whether a tensor is what a projection gives, or a part or view of it."""
    node = model.index.strip(model.index.producer(ref), *_PARTS)
    return node is not None and projection(model, node) is not None


def _scaled(model: Model, product: Node) -> Ref | None:
    """The tensor of a product that keeps its shape, where the other factor does not depend on the tokens."""
    for one, other in (product.args[:2], product.args[1::-1]):
        if not isinstance(one, Ref) or not isinstance(other, Ref) or model.reads_tokens(other.id):
            continue
        if sizes(model.index.nodes[one.id]) == sizes(product):
            return one
    return None


def _adds_no_place(layer: Layer, one: Ref, other: Ref) -> bool:
    """Whether what is added to a tensor is the same tensor, or another layer's, both as yet only multiplied."""
    model, (first, second) = layer.model, (_origin(layer, each) for each in (one, other))
    elsewhere = second is not None and model.layer_of(second) not in (None, layer)
    return elsewhere or (first is second is not None)


def _origin(layer: Layer, ref: Ref) -> Node | None:
    """A tensor before factors that do not depend on the tokens, casts, and reshapes to the shape that it has."""
    model, node = layer.model, layer.model.index.producer(ref)
    while node is not None and model.layer_of(node) is layer:
        before = _scaled(model, node) if node.op == "mul" else None
        if is_cast(node) or (node.op == "reshape" and _keeps_shape(model, node)):
            before = node.args[0]
        if before is None:
            break
        node = model.index.producer(before)
    return node


def _keeps_shape(model: Model, node: Node) -> bool:
    before = model.index.producer(node.args[0])
    return before is not None and sizes(before) == sizes(node) is not None


def _angles(model: Model, identifier: int) -> list[Node]:
    """Cosines and sines that a tensor made outside of the layers comes from, unless it is an embedding."""
    if identifier not in model.angles:
        nodes = model.index.ancestors(identifier)
        model.angles[identifier] = [node for node in nodes if node.op in ("cos", "sin", "polar")]
    return model.angles[identifier]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a fused weight that one part uses: sorted, and how many unbroken runs they form."""

    numbers: tuple[int, ...]
    runs: int


def rows(model: Model, source: Projection, way: Way, tensor: int) -> Rows | None:
    """The rows of a projection's result that a tensor holds, by following the numbers; None where that fails."""
    shape = source.node.shape
    if shape is None:
        return None
    made = [unwrap(size) for size in shape]
    aliases: MutableMapping[int, Node] = {}
    for output, held in way.same.items():
        node = model.index.nodes[output]
        aliases[output] = Node(output, "to", (Ref(held), None), {}, node.shape, node.dtype, node.frame, node.where)
    numbers = np.broadcast_to(np.arange(made[-1]), made)
    try:
        values = evaluate(ChainMap(aliases, model.index.nodes), tensor, {source.node.id: numbers})
    except (UnevaluableError, IndexError):
        return None
    found = np.unique(values)
    # Arithmetic on the way, an unrecognised rotation say, makes numbers that are no rows.
    if np.iscomplexobj(found) or not np.all(np.isin(found, np.arange(made[-1]))):
        return None
    breaks = int(np.count_nonzero(np.diff(found) != 1))
    return Rows(tuple(int(each) for each in found), breaks + 1)


def mixer_frame(layer: Layer, fact: Attention) -> Frame:
    """The innermost module call that an attention and its nearest projections lie in; the layer's as the last."""
    made = [each for tensor in (fact.query, fact.key, fact.value) for each in projections_of(layer, tensor)]
    around = [_around(layer, frame) for frame in {fact.frame, *(each.node.frame for each in made)}]
    return next(frame for frame in around[0] if all(frame in others for others in around))


def _around(layer: Layer, frame: int) -> list[Frame]:
    """The module calls that a frame lies in, the innermost first, the layer's last."""
    frames = layer.model.graph.frames
    current, found = frames[frame], list[Frame]()
    while current.id != layer.frame.id and current.parent is not None:
        if current.kind == "module":
            found.append(current)
        current = frames[current.parent]
    return [*found, layer.frame]


@dataclass(slots=True)
class Site:
    """An attention in its layer, with the ways of its operands, what follows it, and the module call that it is in."""

    layer: Layer
    fact: Attention
    query: Way
    key: Way
    value: Way
    onward: Onward
    frame: Frame
    memo: dict[str, object] = field(default_factory=dict)

    @property
    def bare(self) -> Fact | None:
        """Why nothing that projections tell is known, where an operand comes from the layer's input without one."""
        where = self.fact.where
        if not any(way.bare for way in (self.query, self.key, self.value)):
            return None
        return Fact(None, where, reason=f"{where}: a query, key or value that no linear layer makes")

    @property
    def hiding(self) -> Node | None:
        """A tensor added to the scores that nothing explains: it may hide keys where no mask was found."""
        fact = self.fact
        if fact.bias is None or fact.alibi or fact.selection is not None or fact.mask != "bidirectional":
            return None
        return self.layer.model.index.nodes[fact.bias]

    @property
    def shifting(self) -> Node | None:
        """A tensor of positions alone that is added to the scores, and is not known to be ALiBi."""
        fact, index = self.fact, self.layer.model.index
        if fact.bias is None or fact.alibi or fact.selection is not None or not index.constant(fact.bias):
            return None
        return index.nodes[fact.bias]


def sites(layer: Layer) -> list[Site]:
    """The attentions of a layer."""
    if "sites" not in layer.memo:
        layer.memo["sites"] = [_site(layer, fact) for fact in layer.attentions]
    found: list[Site] = layer.memo["sites"]
    return found


def _site(layer: Layer, fact: Attention) -> Site:
    frame = mixer_frame(layer, fact)
    ends = set() if frame.id == layer.frame.id else set(refs(list(frame.inputs.values())))
    ends = {each for each in ends - {fact.query, fact.key, fact.value} if not layer.model.index.constant(each)}
    query, key, value = (walk_back(layer, tensor, ends) for tensor in (fact.query, fact.key, fact.value))
    return Site(layer, fact, query, key, value, walk_on(layer, fact.output), frame)


def part_rows(site: Site, source: Projection, way: Way, tensor: int) -> Rows | None:
    """Rows of one part; equal layers are followed once."""
    model = site.layer.model
    key = f"{source.owner.replace(site.layer.path, '')} {source.node.shape} {tensor - source.node.id}"
    known = model.rows.setdefault(key, [])
    if not known:
        known.append(rows(model, source, way, tensor))
    found: Rows | None = known[0]
    return found
