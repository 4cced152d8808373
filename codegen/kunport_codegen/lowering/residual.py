"""The residual stream: an addition that a norm follows becomes one step, across layers too.

``residual = residual + x; y = norm(residual)`` is ``y, residual = norm(x, residual)`` in the engine. Where every
layer ends in such an addition and begins with such a norm, the addition moves into the next layer: a layer then
takes and returns the pair (x, residual), and the first one starts without a residual.
"""

from __future__ import annotations

from dataclasses import dataclass

from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import NO_RESIDUAL, Flow, Layout, Op, basename, layer_of, substitute
from kunport_codegen.lowering.norms import FUSABLE
from kunport_codegen.lowering.tokens.context import same_layout


@dataclass(slots=True)
class _Step:
    """An addition and the norm that follows it: ``branch`` is what is added to the ``residual``."""

    addition: Op
    norm: Op
    branch: int
    residual: int


def thread_residual(flow: Flow) -> None:
    """Fuse additions into the norms after them, wherever the sum has no other reader that comes before the norm."""
    inside, across, first = _steps(flow)
    flow.layouts.setdefault(NO_RESIDUAL, Layout(True, ()))
    for step in inside + across:
        total = step.addition.results[0]
        step.norm.args = (Ref(step.branch), Ref(step.residual))
        step.norm.results = [*step.norm.results, total]
        flow.names.update({step.branch: "hidden_states", total: "residual"})
    if first is not None:
        _start(flow, first)
        _hand_on_last(flow, across)
    gone = {id(step.addition) for step in inside + across}
    flow.ops = [op for op in flow.ops if id(op) not in gone]
    flow.settle()


def _start(flow: Flow, norm: Op) -> None:
    """The first layer's norm: nothing to add yet, and its input is the residual from then on.

    That is read in the first layer alone, and by the second one's norm where that has taken over the only addition.
    """
    entering = norm.args[0].id
    residual = flow.fresh(flow.layouts[entering], flow.dtypes.get(entering))
    for op in flow.ops:
        if op is not norm:
            op.args = substitute(op.args, lambda value: residual if value == entering else value)
    norm.args = (Ref(entering), Ref(NO_RESIDUAL))
    norm.results = [*norm.results, residual]
    flow.names.update({entering: "hidden_states", residual: "residual"})


def _hand_on_last(flow: Flow, across: list[_Step]) -> None:
    """Where no norm can take the last layer's addition, it happens after the layers, so that all layers are alike."""
    if any(layer_of(step.norm.owner) is None for step in across):
        return
    users, producers = flow.users(), flow.producers()
    last = max((layer for op in flow.ops if (layer := layer_of(op.owner)) is not None), key=lambda layer: layer[1])
    for op in flow.ops:
        leaves = [user for user in users.get(op.results[0], ()) if layer_of(user.owner) != last]
        if layer_of(op.owner) == last and op.name == "add" and leaves:
            op.owner = leaves[0].owner
            branch = max((arg.id for arg in op.args), key=lambda value: flow.ops.index(producers[value]))
            flow.names[branch] = "hidden_states"


def _steps(flow: Flow) -> tuple[list[_Step], list[_Step], Op | None]:
    """Fusions within one layer (or outside of all), those across layers, and the first layer's norm for the latter."""
    producers, users = flow.producers(), flow.users()
    order = {id(op): place for place, op in enumerate(flow.ops)}
    found: dict[int, _Step] = {}
    for op in flow.ops:
        if op.member is None or op.member.factory not in FUSABLE or len(op.args) != 1:
            continue
        addition = producers.get(op.args[0].id)
        if addition is not None and id(addition) not in found:
            step = _fusable(flow, producers, users, order, addition, op)
            if step is not None:
                found[id(addition)] = step
    inside = [step for step in found.values() if layer_of(step.addition.owner) == layer_of(step.norm.owner)]
    across = [step for step in found.values() if layer_of(step.addition.owner) != layer_of(step.norm.owner)]
    first = _first_norm(flow, users, across)
    return inside, across if first else [], first


def _fusable(
    flow: Flow, producers: dict[int, Op], users: dict[int, list[Op]], order: dict[int, int], addition: Op, norm: Op
) -> _Step | None:
    if addition.name != "add" or len(addition.args) != 2 or addition.kwargs:
        return None
    if not all(isinstance(arg, Ref) and arg.id in producers for arg in addition.args):
        return None
    first, second = sorted((arg.id for arg in addition.args), key=lambda value: order[id(producers[value])])
    total = addition.results[0]
    alike = all(same_layout(flow.layouts[value], flow.layouts[total]) for value in (first, second))
    # The engine writes the results over the operands: nothing may read them afterwards.
    late = [user for user in users[first] if user is not addition and order[id(user)] > order[id(addition)]]
    if not alike or late or len(users[second]) > 1 or producers[second].name == "view" or first == second:
        return None
    if layer_of(addition.owner) and addition.owner != norm.owner and not basename(addition.owner).isdigit():
        return None  # a module's own sum is what it returns, whatever norm the layer puts after it
    readers = [user for user in users[total] if user is not norm]
    if any(layer_of(user.owner) != layer_of(norm.owner) for user in readers) or total == flow.output:
        return None
    return _Step(addition, norm, second, first)


def _first_norm(flow: Flow, users: dict[int, list[Op]], across: list[_Step]) -> Op | None:
    """The first layer's norm, if all layers hand their addition on in the same way."""
    layers = sorted({layer[1] for op in flow.ops if (layer := layer_of(op.owner)) is not None})
    entered = [step.norm for step in across if layer_of(step.norm.owner) is not None]
    taken = [layer[1] for norm in entered if (layer := layer_of(norm.owner)) is not None]
    if not across or sorted(taken) != layers[1:]:
        return None
    names = {op.member.name for op in entered if op.member is not None}
    for op in flow.ops:
        layer = layer_of(op.owner)
        if layer is not None and layer[1] == layers[0] and op.member is not None and op.member.name in names:
            source = flow.producers().get(op.args[0].id)
            enters = source is None or layer_of(source.owner) is None
            readers = users[op.args[0].id]
            return op if enters and all(layer_of(user.owner) == layer for user in readers) else None
    return None
