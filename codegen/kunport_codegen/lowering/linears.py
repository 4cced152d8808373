"""What the passes over linear layers share: paths, sizes and biases of a ``linear`` of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kunport_codegen.expression import Scalar
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import Flow, Op, Size, parent
from kunport_codegen.lowering.members import QUANT, Member, Prefix, Value


@dataclass(slots=True)
class Linear:
    """A ``linear`` whose weight is a parameter called ``weight`` of a module of its own.

    ``bias`` is how the source decides on it: a configuration expression or a plain bool. ``held`` is the path of a bias
    that another module holds, empty for one of its own: such a layer is not packed with others.
    """

    op: Op
    path: str
    inputs: Size
    outputs: Size
    bias: bool | Scalar
    held: str = ""


def linear_of(flow: Flow, producers: dict[int, Op], op: Op) -> Linear | None:
    """The linear layer behind an operator; None if it multiplies by something else than a module's own weight."""
    weight = producers.get(op.args[1].id) if op.name == "linear" and isinstance(op.args[1], Ref) else None
    if weight is None or weight.name != "parameter" or not weight.args[0].endswith(".weight"):
        return None
    path = parent(weight.args[0])
    bias = op.args[2] if len(op.args) > 2 else op.kwargs.get("bias")
    held = ""
    if isinstance(bias, Ref):
        source = producers.get(bias.id)
        if source is None or source.name != "parameter":
            return None
        held = source.args[0] if source.args[0] != f"{path}.bias" else ""
        if held and flow.biases.get(held) != path:
            return None
    shape = flow.graph.parameters[weight.args[0]].shape
    inputs, outputs = shape if weight.args[0] in flow.transposed else shape[::-1]
    return Linear(op, path, inputs, outputs, _bias(flow, path, isinstance(bias, Ref)), held)


def _bias(flow: Flow, path: str, present: bool) -> bool | Scalar:
    module = flow.graph.modules.get(path)
    declared: Any = module.attributes.get("has_bias") if module is not None else None
    if isinstance(declared, Scalar) and declared.value is present:
        return declared
    return present


def linear_member(linear: Linear, factory: str, **settings: Value) -> Member:
    """A linear layer of the engine in the place of one of the source's."""
    kwargs = {"bias": linear.bias, "quant_config": QUANT, **settings, "prefix": Prefix(linear.path.rpartition(".")[2])}
    args = [linear.inputs, linear.outputs]
    tensors = {"bias": linear.held} if linear.held else {}
    return Member(
        linear.path, factory, args, kwargs, linear.op.where, returns="pair", sources=[linear.path], tensors=tensors
    )
