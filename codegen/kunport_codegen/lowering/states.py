"""Operators with a state of each sequence: a layer of the runtime for each, which keeps it."""

from __future__ import annotations

from kunport_codegen.expression import Scalar
from kunport_codegen.facts import StateOperator
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import Flow, Op, parent
from kunport_codegen.lowering.members import Member, Prefix, Value
from kunport_codegen.lowering.weights import parts_on_disk

# Operator -> the runtime's layer, and what that is called in a module where it has no parameters and so no name.
LAYERS = {
    "short_convolution": ("ShortConvolution", "convolution"),
    "token_shift": ("TokenShift", "shift"),
    "mamba1_scan": ("Mamba1Scan", "scan"),
    "mamba2_scan": ("Mamba2Scan", "scan"),
    "gated_delta_rule": ("GatedDeltaRule", "memory"),
    "linear_attention": ("LinearAttention", "memory"),
    "mlstm": ("MatrixLstm", "memory"),
    "rg_lru": ("RgLru", "recurrence"),
    "rwkv": ("Rwkv", "recurrence"),
}
FACTORIES = frozenset(factory for factory, _ in LAYERS.values())


def place_states(flow: Flow) -> None:
    """Make each recognised state operator a call of its layer."""
    placed: list[Op] = []
    for op in flow.ops:
        if op.name != "StateOperator":
            placed.append(op)
            continue
        call = flow.call(op, _member(flow, op), (), op.results)
        call.args, call.kwargs = (tuple(op.kwargs.values()), {}) if len(op.kwargs) == 1 else ((), op.kwargs)
        placed.append(call)
    flow.ops = placed


def fold_step_biases(flow: Flow) -> None:
    """Where a scan adds to its step the bias of the linear layer that made it, that layer adds it."""
    producers, users = flow.producers(), flow.users()
    for op in flow.ops:
        if op.name != "StateOperator" or not {"dt", "dt_bias"} <= op.kwargs.keys():
            continue
        step, bias = (producers.get(op.kwargs[name].id) for name in ("dt", "dt_bias"))
        if step is None or step.name != "linear" or bias is None or users[step.results[0]] != [op]:
            continue
        weight = producers.get(step.args[1].id) if isinstance(step.args[1], Ref) else None
        alone = len(step.args) == 2 or step.args[2] is None
        if not alone or weight is None or {weight.name, bias.name} != {"parameter"}:
            continue
        if parent(weight.args[0]) == parent(bias.args[0]):
            step.args = (*step.args[:2], op.kwargs["dt_bias"])
            op.kwargs = {name: value for name, value in op.kwargs.items() if name != "dt_bias"}
    flow.settle()


def _member(flow: Flow, op: Op) -> Member:
    fact: StateOperator = op.fact
    factory, name = LAYERS[fact.kind]
    owner = flow.graph.modules.get(op.owner)
    path = op.owner if owner is not None and owner.leaf is not None else f"{op.owner}.{name}"
    path = parent(fact.weight) if fact.weight is not None else path
    module = flow.graph.modules.get(path)
    has_bias = module.attributes.get("has_bias") if module is not None and module.leaf is not None else None
    kwargs: dict[str, Value] = {}
    if isinstance(has_bias, Scalar):
        kwargs["bias"] = has_bias
    elif fact.bias is not None:
        kwargs["bias"] = True
    if fact.weight is not None and (parts := parts_on_disk(flow.graph, fact.weight)) > 1:
        kwargs["parts"] = parts
    kwargs |= fact.options
    kwargs["prefix"] = Prefix(path.rpartition(".")[2])
    sources = [path] if fact.weight is not None else []
    return Member(path, factory, list(fact.sizes.values()), kwargs, op.where, sources=sources)
