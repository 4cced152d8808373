"""From the graph to a flow: every recognised operator takes the place of the nodes it covers."""

from __future__ import annotations

from collections import Counter

from kunport_codegen.facts import Facts
from kunport_codegen.graph import Frame, Graph, Location, Node, Ref
from kunport_codegen.lowering.errors import LoweringError, Refusal
from kunport_codegen.lowering.experts import router_inputs
from kunport_codegen.lowering.flow import Flow, Op, needed
from kunport_codegen.lowering.norms import has_layer
from kunport_codegen.lowering.rotary import has_embedding, regrouped_alike

_CONVOLUTIONS = ("short_convolution", "token_shift")


def ingest(graph: Graph, facts: Facts) -> Flow:
    """The graph's operators with what was recognised in one piece each. What the output does not need is dropped.

    Raises:
        LoweringError: the model returns no logits.
    """
    if not isinstance(graph.output, Ref):
        root = graph.modules.get("")
        where = root.where if root is not None else Location("", 1)
        raise LoweringError([Refusal(where, "output", "the model returns no tensor of logits")])
    owners = _owners(graph)
    recognised = _recognised(graph, facts, owners)
    ops = [recognised.get(node.id) or _plain(node, owners) for node in graph.nodes]
    top = max((node.id for node in graph.walk()), default=0)
    flow = Flow(graph, needed(ops, graph.output.id), graph.output.id, free=top + 1)
    for node in graph.nodes:
        flow.dtypes[node.id] = node.dtype
    _turn_keys(flow)
    _refuse_unknown(flow, graph)
    _refuse_unproved(flow, facts, owners)
    return flow


def _recognised(graph: Graph, facts: Facts, owners: dict[int, str]) -> dict[int, Op]:
    """Id of the node that holds the result -> the operator that makes it in one step."""
    ops: dict[int, Op] = {}

    def add(name: str, args: tuple[int, ...], output: int, frame: int, where: Location, fact: object) -> None:
        ops[output] = Op(name, tuple(Ref(arg) for arg in args), {}, [output], owners[frame], where, fact=fact)

    for norm in filter(has_layer, facts.norms):
        add("Norm", (norm.input,), norm.output, norm.frame, norm.where, norm)
    for rope in regrouped_alike(graph, list(filter(has_embedding, facts.ropes)), facts.attentions):
        add("Rope", (rope.input,), rope.output, rope.frame, rope.where, rope)
    for attention in facts.attentions:
        inputs = (attention.query, attention.key, attention.value)
        add("Attention", inputs, attention.output, attention.frame, attention.where, attention)
    for state in facts.states:
        add("StateOperator", (), state.output, state.frame, state.where, state)
        ops[state.output].kwargs = {name: Ref(value) for name, value in state.inputs.items()}
    for experts in facts.experts:
        add("Experts", (experts.input, *router_inputs(experts)), experts.output, experts.frame, experts.where, experts)
    return ops


def _plain(node: Node, owners: dict[int, str]) -> Op:
    return Op(node.op, node.args, node.kwargs, [node.id], owners[node.frame], node.where, fact=node.body)


def _owners(graph: Graph) -> dict[int, str]:
    """Frame -> path of the module of the tree whose forward it is part of.

    A module that a forward makes for itself is part of that, and so is one without parameters that is called more than
    once: a class of the adapter runs its modules once each.
    """
    frames = {frame.id: frame for frame in graph.frames}
    called = Counter(frame.path for frame in graph.frames if frame.kind == "module" and frame.parent is not None)
    empty = {path for path, times in called.items() if times > 1 and not _has_parameters(graph, path)}
    owners: dict[int, str] = {}
    for frame in graph.frames:
        inner: Frame | None = frame
        while inner is not None and (inner.kind != "module" or not inner.path or inner.path in empty):
            inner = frames.get(inner.parent) if inner.parent is not None else None
        owners[frame.id] = inner.path if inner is not None else ""
    return owners


def _refuse_unproved(flow: Flow, facts: Facts, owners: dict[int, str]) -> None:
    """A mixer that is known by its family, of which no part was proved to be an operator with a state."""
    proved = {each.output for each in facts.states if each.kind not in _CONVOLUTIONS}
    for mixer in facts.mixers:
        if mixer.kind != "short_convolution" and proved.isdisjoint(mixer.nodes):
            op = Op(f"{mixer.kind} mixer", (), {}, [], owners[mixer.frame], mixer.where)
            flow.refuse(op, "it is not proved to be an operator with a state that the runtime has, for every length")


def _has_parameters(graph: Graph, path: str) -> bool:
    return any(name.startswith(f"{path}.") for name in graph.parameters)


def _turn_keys(flow: Flow) -> None:
    """A key that the source lays out for the product of scores is turned back: ``[batch, heads, sequence, size]``."""
    shapes = {node.id: node.shape for node in flow.graph.nodes}
    ops: list[Op] = []
    for op in flow.ops:
        if op.name == "Attention" and op.fact.key_transposed:
            query, key, value = op.args
            turned, shape = flow.free, shapes[key.id]
            flow.free += 1
            flow.dtypes[turned] = flow.dtypes.get(key.id)
            flow.shapes[turned] = None if shape is None else (*shape[:-2], shape[-1], shape[-2])
            ops.append(Op("transpose", (key, -1, -2), {}, [turned], op.owner, op.where))
            op.args = (query, Ref(turned), value)
        ops.append(op)
    flow.ops = ops


def _refuse_unknown(flow: Flow, graph: Graph) -> None:
    for op in flow.ops:
        if op.name == "unknown":
            flow.refuse(op, f"the analysis could not read it ({op.args[0]})")
        elif op.name == "loop":
            flow.refuse(op, "a loop over data is understood only as a set of experts, and this one is not")
