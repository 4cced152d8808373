"""The end of the model: the head's projection, and what happens to the logits after it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kunport_codegen.expression import apply, unwrap
from kunport_codegen.graph import DType, Ref
from kunport_codegen.lowering.flow import Flow, Op
from kunport_codegen.lowering.linears import Linear, linear_of
from kunport_codegen.lowering.members import QUANT, Member, Prefix, Value


@dataclass(slots=True)
class Head:
    """The head: its layer, the logits processor's settings, and the table it shares its weight with."""

    member: Member
    processor: Member
    has_bias: bool
    hidden: int
    tied: str | None = None
    rest: list[Op] = field(default_factory=list)


def place_head(flow: Flow) -> Head | None:
    """Take the head off the end of the flow; its output is then the hidden states that the head reads."""
    producers = flow.producers()
    chain: list[Op] = []
    current = flow.output
    while current in producers and producers[current].name != "linear":
        op = producers[current]
        tensors = op.inputs()
        if len(tensors) != 1 or op.name not in ("mul", "div", "tanh", "to", "float", "view"):
            break
        chain.insert(0, op)
        current = tensors[0]
    linear = linear_of(flow, producers, producers[current]) if current in producers else None
    if linear is None:
        flow.refuse(
            producers[flow.output] if flow.output in producers else flow.ops[-1],
            "the logits do not end in a linear head",
        )
        return None
    settings = _settings(chain)
    if settings is None:
        flow.refuse(chain[0], "what happens to the logits is no scale and no soft cap that the engine knows")
        return None
    head = _head(flow, linear, settings)
    hidden = linear.op.args[0]
    flow.output = hidden.id if isinstance(hidden, Ref) else flow.output
    flow.settle()
    return head


def _settings(chain: list[Op]) -> dict[str, Value] | None:
    """``soft_cap`` and ``scale`` of the logits processor, which caps first; None if the chain is something else."""
    steps = [op for op in chain if not _only_casts(op)]
    settings: dict[str, Value] = {}
    if len(steps) >= 3 and [op.name for op in steps[:3]] == ["div", "tanh", "mul"]:
        cap, again = _scalar(steps[0]), _scalar(steps[2])
        if cap is None or again is None or unwrap(cap) != unwrap(again):
            return None
        settings["soft_cap"] = cap
        steps = steps[3:]
    if len(steps) == 1 and steps[0].name in ("mul", "div") and (factor := _scalar(steps[0])) is not None:
        settings["scale"] = factor if steps[0].name == "mul" else apply("div", 1, factor)
        steps = []
    return settings if not steps else None


def _only_casts(op: Op) -> bool:
    """A cast to float32, which the sampler does anyway."""
    return op.name == "float" or (op.name == "to" and DType("float32") in (*op.args[1:], *op.kwargs.values()))


def _scalar(op: Op) -> Value | None:
    scalars = [arg for arg in op.args if not isinstance(arg, Ref)]
    return scalars[0] if len(scalars) == 1 and (op.name == "mul" or isinstance(op.args[0], Ref)) else None


def _head(flow: Flow, linear: Linear, settings: dict[str, Value]) -> Head:
    kwargs: dict[str, Value] = {"quant_config": QUANT, "prefix": Prefix(linear.path)}
    has_bias = bool(unwrap(linear.bias))
    if has_bias:
        kwargs = {"bias": linear.bias, **kwargs}
    # The name by which the engine finds it, unless the source calls something else so.
    name = "lm_head" if "lm_head" not in flow.graph.modules else linear.path
    args = [linear.outputs, linear.inputs]
    member = Member(name, "ParallelLMHead", args, kwargs, linear.op.where, sources=[linear.path])
    processor = Member("logits_processor", "LogitsProcessor", [linear.outputs], settings, linear.op.where)
    tied = dict(flow.graph.tied) | {second: first for first, second in flow.graph.tied}
    hidden = linear.op.args[0].id
    table = tied.get(f"{linear.path}.weight")
    return Head(member, processor, has_bias, hidden, table.rpartition(".")[0] if table else None)
