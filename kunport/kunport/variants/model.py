"""A model graph with what was recognised in it, sorted into layers: what every reader of a variant starts from."""

from __future__ import annotations

import dataclasses
import re
from functools import cached_property
from typing import Any

from kunport_codegen.expression import Scalar, fields_of, origins_of, symbols_of, unwrap, walk
from kunport_codegen.facts import Activation, Attention, Facts, Norm, Rope
from kunport_codegen.graph import Choice, Frame, Graph, Location, Node, refs
from kunport_codegen.recognition.index import Index

from kunport.variants.fact import Fact

_NUMBERED = re.compile(r"(.*)\.([A-Za-z_]*?)_?(\d+)$")
# What a parameter may go through on its way to a product.
TRANSPOSED = ("transpose", "t", "T", "mT", "to", "reshape", "permute", "unsqueeze")
_INDEXED = re.compile(r"\[\d+\]")
# Operators that leave every element as it is and in its order, or choose its type.
VIEWS = frozenset(
    (
        *("reshape", "view", "transpose", "t", "T", "mT", "permute", "expand", "unsqueeze", "squeeze", "flatten"),
        *("unflatten", "broadcast_to", "to", "type_as", "float"),
    )
)
# Operators that mix tokens and cannot be told apart further where no recognised fact covers them.
_MIXING = frozenset(("conv1d", "cumsum", "loop", "scaled_dot_product_attention", "logcumsumexp", "flex_attention"))
# Operators that may mix tokens: a layer without any attention in which one stands is not called a layer without mixing.
_SUSPECT = frozenset(
    (
        "matmul",
        "bmm",
        "einsum",
        "baddbmm",
        "getitem",
        "setitem",
        "cat",
        "pad",
        "roll",
        "index_select",
        "gather",
        "scatter",
    )
)
# Operators that only a norm has, as a rule: where no recognised norm covers one, there is a norm that cannot be told.
_NORMALISING = frozenset(
    (
        *("rsqrt", "sqrt", "layer_norm", "rms_norm", "group_norm", "normalize", "var", "var_mean", "std", "norm"),
        *("vector_norm", "linalg_norm", "linalg_vector_norm"),
    )
)


_STEPS = 12  # from a parameter to what normalises it
# Fields that count layers: what is decided on them is where a layer stands.
_COUNTS = re.compile(r"((num|n|number_of)_)?((hidden|decoder|transformer)_)?(layers?|blocks?)|depth")


class Model:
    """A graph, its facts, and its layers in order.

    ``layers`` are those of the longest stack first. ``covered`` are the nodes that a recognised fact explains.
    """

    def __init__(self, graph: Graph, facts: Facts, index: Index | None = None) -> None:
        self.graph, self.facts, self.index = graph, facts, Index(graph) if index is None else index
        every = [each for field in dataclasses.fields(facts) for each in getattr(facts, field.name)]
        self.covered = {node for each in every for node in each.nodes}
        # A rotation or an activation is stated with what it belongs to, the others as they are.
        self.stated = {node for each in every if not isinstance(each, Rope | Activation) for node in each.nodes}
        # One of a parameter normalises a weight, and is no norm of the model: what it does is named as unexplained.
        weights = [norm for norm in facts.norms if _reads_parameters(self.index, norm.input)]
        self.facts = facts = dataclasses.replace(facts, norms=[each for each in facts.norms if each not in weights])
        self.stated -= {node for norm in weights for node in norm.nodes}
        self.norm_of_output = {norm.output: norm for norm in facts.norms}
        self.rope_of_output = {rope.output: rope for rope in facts.ropes}
        self.paths = _paths(graph)
        # Stack -> every call of one of its layers, in order.
        self.runs: dict[str, list[tuple[int, Frame]]] = {}
        self.layers, self._layer_of_frame = _layers(self)
        self.outside: list[Node] = []
        # Behind what is not understood, nothing shows which results are used: then every node counts as used.
        cut = bool(graph.unknowns())
        for node in self.index.nodes.values():
            if cut or node.id in self.index.live:
                layer = self._layer_of_frame[node.frame]
                (self.outside if layer is None else layer.nodes).append(node)
        for fact in (each for each in every if each not in weights):
            layer = self._layer_of_frame[fact.frame]
            if layer is not None:
                layer.facts.setdefault(type(fact).__name__, []).append(fact)
        self.angles: dict[int, list[Node]] = {}
        self.rows: dict[str, list[Any]] = {}
        self.memo: dict[str, Any] = {}
        self._still: dict[int, bool] = {}
        self._reads: dict[int, tuple[int, ...]] = {}
        self._chosen: dict[int, frozenset[str]] = {}
        self._switches: dict[str, tuple[str, ...]] = {}

    def still(self, identifier: int) -> bool:
        """Whether a tensor depends on sizes, the configuration and masks alone."""
        pending, known = [identifier], self._still
        while pending:
            current = pending[-1]
            node = self.index.nodes.get(current)
            if current in known:
                pending.pop()
            elif node is None or node.op in ("input", "parameter", "loop", "unknown", "state"):
                known[current] = False
            else:
                reads = self.reads(node)
                missing = [each for each in reads if each not in known]
                if missing:
                    pending.extend(missing)
                else:
                    known[current] = all(known[each] for each in reads)
        return known[identifier]

    def hides_norm(self, node: Node) -> bool:
        """Whether a node belongs to a norm that nobody recognised."""
        if node.id in self.covered or self.index.constant(node.id):
            return False
        root = node.op == "pow" and len(node.args) > 1 and unwrap(node.args[1]) in (0.5, -0.5)
        return root or node.op in _NORMALISING

    def reads(self, node: Node) -> tuple[int, ...]:
        """The ids of the tensors that a node reads itself, looked up once."""
        known = self._reads.get(node.id)
        if known is None:
            known = self._reads[node.id] = tuple(refs((node.args, node.kwargs) if node.kwargs else node.args))
        return known

    def layer_of(self, node: Node) -> Layer | None:
        return self._layer_of_frame[node.frame]

    def fact(self, value: Any, where: Location, switches: str = "", *sources: Any) -> Fact:
        """A fact with the fields that it depends on.

        They are those of its value, of other scalars that it comes from, those on which it was decided that the line
        runs, and those that a decision was taken on and that the pattern ``switches`` finds.
        """
        scalars = [each for each in (value, *sources) if isinstance(each, Scalar)]
        if isinstance(unwrap(value), int | float) and any(symbols_of(each.expr) for each in scalars):
            return Fact(None, where, reason=f"{where}: it changes with the number of tokens that are given")
        fields = {field for each in scalars for field in origins_of(each.expr) if not self._counting(each, field)}
        fields.update(self.decided_at(where))
        if switches:
            fields.update(self._decided(switches))
        return Fact(unwrap(value), where, tuple(sorted({_INDEXED.sub("", field) for field in fields})))

    def chosen(self, frame: int) -> frozenset[str]:
        """Fields on whose values it was decided that a call is made, or its module is there, or what it is in."""
        if frame not in self._chosen:
            call = self.graph.frames[frame]
            module = self.graph.modules.get(call.path) if call.kind == "module" else None
            outer = self.chosen(call.parent) if call.parent is not None else frozenset()
            name = call.path.rpartition(".")[2] if call.kind == "module" else call.name
            made = self.decided_at(module.made) if module is not None and module.made is not None else set()
            self._chosen[frame] = outer.union(self.decided_at(call.where, name), made)
        return self._chosen[frame]

    def decided_at(self, where: Location, name: str = "") -> set[str]:
        """Fields on whose values it was decided that a line runs, and uses a name that it would not use else."""
        found = (each for each in self._choices.get(where.file, ()) if each.first <= where.line <= each.last)
        return {
            field for each in found if name not in each.either for field in each.fields if not self.counts_layers(field)
        }

    def _counting(self, value: Scalar, field: str) -> bool:
        """Whether a field that only decided on a value counts layers."""
        return self.counts_layers(field) and field not in fields_of(value.expr)

    def counts_layers(self, field: str) -> bool:
        """Whether a field is a number of layers by its name."""
        return _COUNTS.fullmatch(field) is not None and isinstance(self.graph.config.get(field), int)

    @cached_property
    def _choices(self) -> dict[str, list[Choice]]:
        by_file: dict[str, list[Choice]] = {}
        for choice in self.graph.choices:
            by_file.setdefault(choice.file, []).append(choice)
        return by_file

    def opaque(self, node: Node, what: str = "") -> Fact:
        """A fact that cannot be told because of a node."""
        unclaimed = f"this {node.op} belongs to no part of a model that kunport knows"
        why = str(node.args[0]) if node.op == "unknown" else unclaimed
        return Fact(None, node.where, reason=f"{node.where}: {what or why}")

    def _decided(self, switches: str) -> tuple[str, ...]:
        """Fields of the guards in which the pattern finds a field or a word that one is compared with."""
        if switches not in self._switches:
            pattern = re.compile(switches)
            found = [fields for words, fields in self._guarded if any(pattern.search(word) for word in words)]
            self._switches[switches] = tuple(sorted({field for fields in found for field in fields}))
        return self._switches[switches]

    @cached_property
    def _guarded(self) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
        """For each guard its fields and the words that they are compared with, and its fields."""
        found = set()
        for guard in self.graph.guards:
            fields = tuple(sorted({_INDEXED.sub("", field) for field in fields_of(guard.expr)}))
            words = [each for expr in walk(guard.expr) for each in expr.args if isinstance(each, str)]
            found.add((tuple(sorted({*fields, *words})), fields))
        return found

    def parameter(self, ref: object) -> str | None:
        """Path of the parameter that an operand is, a transposed or cast one included."""
        node = self.index.strip(self.index.producer(ref), *TRANSPOSED)
        return str(node.args[0]) if node is not None and node.op == "parameter" else None

    def reads_tokens(self, identifier: int) -> bool:
        """Whether a tensor is computed from the token ids by nothing but moves and arithmetic on whole numbers."""
        return any(node.op == "input" for node in self.index.ancestors(identifier))


class Layer:
    """One layer: its nodes in order, and the facts found in it by the name of their class."""

    def __init__(self, model: Model, stack: str, number: int, frame: Frame) -> None:
        self.model, self.stack, self.number, self.frame = model, stack, number, frame
        self.path = frame.path
        self.nodes: list[Node] = []
        self.facts: dict[str, list[Any]] = {}
        self.memo: dict[str, Any] = {}

    @property
    def attentions(self) -> list[Attention]:
        return self.facts.get("Attention", [])

    @property
    def norms(self) -> list[Norm]:
        return self.facts.get("Norm", [])

    @property
    def ropes(self) -> list[Rope]:
        return self.facts.get("Rope", [])

    def place(self, frame: int) -> str:
        """Path inside the layer of a frame's module; the whole path of a module that lies elsewhere."""
        return self.inside(self.model.paths[frame])

    def inside(self, path: str) -> str:
        """A path without the part that names the layer."""
        return "" if path == self.path else path.removeprefix(f"{self.path}.")

    def part(self, frame: int) -> str:
        """The layer's own submodule that a frame lies in; "" for the layer's own forward."""
        return self.place(frame).partition(".")[0]

    @cached_property
    def router_parts(self) -> set[str]:
        """The parts that choose experts."""
        chosen = [node.frame for node in self.nodes if node.op == "topk" and not self.over_tokens(node)]
        chosen += [fact.frame for fact in self.facts.get("Experts", [])]
        chosen += [node.frame for node in self.nodes if node.op == "nonzero"]
        attending = [fact.frame for fact in self.attentions]
        attending += [node.frame for node in self.nodes if node.op == "softmax" and self.over_tokens(node)]
        return {self.part(frame) for frame in chosen} - {self.part(frame) for frame in attending} - {""}

    @cached_property
    def unread_mixing(self) -> list[Node]:
        """Nodes that mix tokens and that no fact explains; those that may, where nothing else in the layer does."""
        unread = [node for node in self.nodes if node.id not in self.model.covered]
        found = [node for node in unread if self._mixes(node)]
        if found or self.attentions or self.facts.get("Mixer"):
            return found
        return [node for node in unread if node.op in _SUSPECT and self._may_mix(node)]

    def _may_mix(self, node: Node) -> bool:
        """Whether an operator outside of experts may mix tokens: a product with a parameter does not."""
        if self.part(node.frame) in self.router_parts or node.id in self.normalising:
            return False
        return not any(self.model.parameter(each) is not None for each in node.args)

    @cached_property
    def normalising(self) -> set[int]:
        """Nodes of norms."""
        return {each for norm in self.norms for each in norm.nodes}

    @cached_property
    def unread_norms(self) -> list[Node]:
        """Nodes of norms that no fact explains, outside of what mixes tokens."""
        frames = [fact.frame for fact in self.attentions + self.facts.get("Mixer", [])]
        inner = {self.part(frame) for frame in frames + [node.frame for node in self.unread_mixing]} - {""}
        inner |= self.router_parts
        return [node for node in self.nodes if self.model.hides_norm(node) and self.part(node.frame) not in inner]

    def _mixes(self, node: Node) -> bool:
        if node.op in ("softmax", "log_softmax", "topk"):
            return self.over_tokens(node)
        if node.op == "unknown" or node.op in _MIXING:
            return self.part(node.frame) not in self.router_parts
        return False

    @cached_property
    def unread_routing(self) -> list[Node]:
        """Nodes that choose or weigh experts, or that are not understood in such a part, and that no fact explains."""
        found = []
        for node in self.nodes:
            if node.id in self.model.covered:
                continue
            chooses = node.op in ("topk", "softmax") and not self.over_tokens(node)
            if chooses or (node.op in ("unknown", "loop") and self.part(node.frame) in self.router_parts):
                found.append(node)
        return found

    def over_tokens(self, node: Node) -> bool:
        """Whether a softmax or a choice runs over positions: the last size of its operand is one of tokens."""
        operand = self.model.index.producer(node.args[0])
        size = operand.shape[-1] if operand is not None and operand.shape else None
        return isinstance(size, Scalar) and bool(symbols_of(size.expr))

    @cached_property
    def unknowns(self) -> list[Node]:
        """What the analysis did not understand in this layer."""
        return [node for node in self.nodes if node.op == "unknown"]


def _reads_parameters(index: Index, tensor: int) -> bool:
    """Whether a tensor is a parameter, or is made of parameters and numbers in a few steps."""
    pending, seen, found = [tensor], set[int](), False
    while pending:
        node = index.nodes.get(pending.pop())
        if node is None or node.op in ("input", "state", "mask", "loop", "unknown") or len(seen) > _STEPS:
            return False
        found = found or node.op == "parameter"
        if node.id not in seen:
            seen.add(node.id)
            pending.extend(refs((node.args, node.kwargs)))
    return found


def _paths(graph: Graph) -> list[str]:
    """For each frame, the path of the module whose forward it is or was called from."""
    paths: list[str] = []
    for frame in graph.frames:
        inherited = paths[frame.parent] if frame.parent is not None else ""
        paths.append(frame.path or inherited)  # a module that a function makes has no path
    return paths


def _layers(model: Model) -> tuple[list[Layer], list[Layer | None]]:
    """The layers, those of the longest stack first, and for each frame the layer that it runs in.

    A layer is a numbered module that runs outside of any other, has parts of its own, and is no operator of torch.
    """
    graph = model.graph
    layer_of: list[Layer | None] = []
    stacks: dict[str, dict[int, Layer]] = {}
    for frame in graph.frames:
        layer = layer_of[frame.parent] if frame.parent is not None else None
        found = stack_of(graph, frame.path) if layer is None and frame.kind == "module" else None
        if found is not None:
            stack = stacks.setdefault(found[0], {})
            layer = stack.setdefault(found[1], Layer(model, *found, frame))
            model.runs.setdefault(found[0], []).append((found[1], frame))
        layer_of.append(layer)
    ordered = sorted(stacks.values(), key=len, reverse=True)
    return [stack[number] for stack in ordered for number in sorted(stack)], layer_of


def stack_of(graph: Graph, path: str) -> tuple[str, int] | None:
    """The path of the list that a layer stands in and its number there; None for what is no layer."""
    found = _NUMBERED.match(path)
    return (found[1], int(found[3])) if found is not None and _is_layer(graph, path, found[2]) else None


def _is_layer(graph: Graph, path: str, stem: str) -> bool:
    """Whether a numbered module is a layer; one that is called ``unit_0`` and not 0 needs others of its class."""
    module = graph.modules.get(path)
    if module is None or module.leaf is not None or not module.children:
        return False
    siblings = graph.modules[path.rpartition(".")[0]].children if stem else []
    return not stem or sum(graph.modules[each].cls == module.cls for each in siblings if each in graph.modules) > 1
