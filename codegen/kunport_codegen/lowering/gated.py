"""Gated MLPs: gate and up in one `MergedColumnParallelLinear`, activation and product in one layer."""

from __future__ import annotations

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import Flow, Layout, Op, parent
from kunport_codegen.lowering.linears import Linear, linear_of
from kunport_codegen.lowering.members import QUANT, Member, Prefix, Regroup, Repeat
from kunport_codegen.lowering.rows import Part, grouping, trace

# The engine's layers for activation(gate) * up, by the activation and how it is approximated.
FUSED = {"silu": ("SiluAndMul", {}), "gelu": ("GeluAndMul", {}), "gelu_tanh": ("GeluAndMul", {"approximate": "tanh"})}


def pack_gates(flow: Flow) -> None:
    """Find ``activation(gate(x)) * up(x)``, be gate and up two layers or halves of one, and pack them."""
    producers, users = flow.producers(), flow.users()
    added: list[Op] = []
    for op in flow.ops:
        if op.name == "mul" and len(op.args) == 2 and all(isinstance(arg, Ref) for arg in op.args):
            added += _pack(flow, producers, users, op)
    replaced = {result for op in added for result in op.results}
    flow.ops = [op for op in flow.ops if not replaced & set(op.results)] + added
    flow.settle()


def _pack(flow: Flow, producers: dict[int, Op], users: dict[int, list[Op]], product: Op) -> list[Op]:
    for gated, plain in (product.args, product.args[::-1]):
        activation = producers.get(gated.id)
        if activation is None or activation_of(activation) is None or len(users[gated.id]) > 1:
            continue
        gate = trace(flow, producers, activation.args[0].id)
        up = trace(flow, producers, plain.id)
        if gate is None or up is None or gate.value != activation.args[0].id or up.value != plain.id:
            continue
        if len(users[gate.value]) > 1 or len(users[up.value]) > 1:
            continue
        linears = [linear_of(flow, producers, part.linear) for part in (gate, up)]
        if linears[0] is not None and linears[1] is not None:
            return _merge(flow, product, activation, (gate, up), (linears[0], linears[1]))
    return []


def activation_of(op: Op) -> str | None:
    """The name of an activation: torch's, with ``_tanh`` where gelu is approximated so."""
    if op.name == "gelu":
        approximate = op.args[1] if len(op.args) > 1 else op.kwargs.get("approximate", "none")
        return {"none": "gelu", "tanh": "gelu_tanh"}.get(approximate)
    return op.name if op.name in ("silu", "relu", "sigmoid", "tanh") else None


def _merge(
    flow: Flow, product: Op, activation: Op, parts: tuple[Part, Part], linears: tuple[Linear, Linear]
) -> list[Op]:
    gate, up = linears
    size = flow.layouts[product.results[0]].sizes[-1]
    if gate.path == up.path:
        layout = grouping([part.rows for part in parts])
        if layout is None or 2 * unwrap(size) != unwrap(gate.outputs):
            return []
        if not layout.in_order:
            flow.regroups.append(Regroup(gate.path, layout.groups, layout.sizes, layout.order))
            if layout.sizes[0] > 1:  # the number of groups is written down
                flow.hold((gate.outputs,), gate.op.where)
        path, sources = gate.path, [gate.path]
        size = flow.layouts[parts[0].value].sizes[-1]
    else:
        if gate.held or up.held:
            return []
        same_input = gate.op.args[0] == up.op.args[0]
        if not same_input or parent(gate.path) != parent(up.path) or unwrap(gate.bias) != unwrap(up.bias):
            return []
        path, sources, size = f"{parent(gate.path)}.gate_up_proj", [gate.path, up.path], gate.outputs
    member = Member(
        path,
        "MergedColumnParallelLinear",
        [gate.inputs, Repeat(size, 2)],
        {"bias": gate.bias, "quant_config": QUANT, "prefix": Prefix(path.rpartition(".")[2])},
        gate.op.where,
        returns="pair",
        sources=sources,
    )
    merged = flow.fresh(Layout(True, (2 * unwrap(size),)), flow.dtypes.get(product.results[0]))
    flow.names[merged] = "gate_up"
    flow.sharded.update((merged, *product.results))
    call = flow.call(gate.op, member, (gate.op.args[0],), [merged])
    return [call, *_activate(flow, product, activation, merged, call.owner)]


def _activate(flow: Flow, product: Op, activation: Op, merged: int, owner: str) -> list[Op]:
    """The fused layer where the engine has one, else the halves through torch."""
    name = activation_of(activation)
    if name in FUSED:
        factory, settings = FUSED[name]
        own = activation.owner if parent(activation.owner) == owner else f"{owner}.act_fn"
        member = Member(own, factory, [], dict(settings), activation.where)
        return [flow.call(product, member, (Ref(merged),), product.results)]
    halves = [flow.fresh(flow.layouts[product.results[0]], flow.dtypes.get(merged)) for _ in range(2)]
    flow.names.update(zip(halves, ("gate", "up"), strict=True))
    flow.sharded.update(halves)
    split = Op("chunk", (Ref(merged), 2), {"dim": -1}, halves, owner, product.where)
    activated = Op(
        activation.name,
        (Ref(halves[0]), *activation.args[1:]),
        activation.kwargs,
        activation.results,
        owner,
        activation.where,
    )
    return [
        split,
        activated,
        Op("mul", (Ref(activation.results[0]), Ref(halves[1])), {}, product.results, owner, product.where),
    ]
