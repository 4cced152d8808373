"""Tensor parallelism of the remaining linear layers: column, row, or the same on every rank."""

from __future__ import annotations

from kunport_codegen.lowering.errors import Refusal
from kunport_codegen.lowering.flow import Flow, Op
from kunport_codegen.lowering.linears import Linear, linear_member, linear_of
from kunport_codegen.lowering.views import ELEMENTWISE

# What a router's own code does not lie behind.
_ENDS = {"Norm", "Attention", "Experts", "Rope", "StateOperator", "embedding", "parameter", "input"}
_PASSES = ELEMENTWISE | {"view", "split_heads", "Rope", "Norm", "Attention"}


def place_linears(flow: Flow) -> None:
    """A layer that reads values split over ranks sums over them; one that feeds only such layers splits its output."""
    producers, users = flow.producers(), flow.users()
    linears = {id(op): linear for op in flow.ops if (linear := linear_of(flow, producers, op)) is not None}
    for op in flow.ops:
        splits = id(op) in linears and _feeds_rows(flow, users, linears, op)
        if splits or (op.name in _PASSES and any(value in flow.sharded for value in op.inputs())):
            flow.sharded.update(op.results)
    routers = _routers(flow, linears)
    flow.ops = [_placed(flow, linears[id(op)], routers) if id(op) in linears else op for op in flow.ops]
    flow.settle()
    _check(flow)


def _placed(flow: Flow, linear: Linear, routers: set[int]) -> Op:
    result = linear.op.results[0]
    if linear.op.args[0].id in flow.sharded:
        member = linear_member(linear, "RowParallelLinear")
    elif result in flow.sharded:
        member = linear_member(linear, "ColumnParallelLinear")
    elif result in routers:
        member = linear_member(linear, "ReplicatedLinear", quant_config=None)
        flow.names[result] = "router_logits"
    else:
        member = linear_member(linear, "ReplicatedLinear")
    return flow.call(linear.op, member, (linear.op.args[0],), [result])


def _routers(flow: Flow, linears: dict[int, Linear]) -> set[int]:
    """The logits of routers: the nearest results of linear layers behind what mixtures of experts are given of them."""
    producers = flow.producers()
    pending = [arg.id for op in flow.ops if op.name == "Experts" for arg in op.args[1:]]
    seen, found = set(pending), set[int]()
    while pending:
        value = pending.pop()
        op = producers.get(value)
        if op is not None and id(op) in linears:
            found.add(value)
        elif op is not None and op.name not in _ENDS:
            new = set(op.inputs()) - seen
            seen |= new
            pending += new
    return found


def _feeds_rows(flow: Flow, users: dict[int, list[Op]], linears: dict[int, Linear], op: Op) -> bool:
    """Whether all that is done with the layer's output is arithmetic element by element on the way to other layers."""
    pending, seen = list(op.results), set(op.results)
    ends = 0
    while pending:
        value = pending.pop()
        if value == flow.output:
            return False
        for user in users.get(value, ()):
            if id(user) in linears:
                ends += 1
            elif user.name in ELEMENTWISE and all(other in seen for other in user.inputs()):
                new = [result for result in user.results if result not in seen]
                seen.update(new)
                pending.extend(new)
            else:
                return False
    return ends > 0


def _check(flow: Flow) -> None:
    """Anything but a row-parallel layer that mixes a split value with a whole one needs all ranks' parts at once."""
    for op in flow.ops:
        split = [value in flow.sharded for value in op.inputs()]
        known = op.name in _PASSES or (op.member is not None and op.name == "call")
        if any(split) and not (known and all(split)) and op.name not in ("Experts", "chunk", "item"):
            flow.whole.append(Refusal(op.where, op.name, "it needs the parts of all tensor-parallel ranks at once"))
