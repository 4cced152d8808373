"""Norms: the engine's layers by form. A form that it lacks stays what it is in the source, plain torch."""

from __future__ import annotations

from kunport_codegen.facts import Norm
from kunport_codegen.lowering.errors import Refusal
from kunport_codegen.lowering.flow import Flow, Op, parent
from kunport_codegen.lowering.members import Member, Name, Value
from kunport_codegen.recognition.norms import STEP

# Layers of the engine that can also add the residual before they normalise.
FUSABLE = frozenset(("RMSNorm", "GemmaRMSNorm"))


def has_layer(fact: Norm) -> bool:
    """Whether the engine has a layer for this form."""
    if fact.cast == "root" or fact.groups is not None or fact.epsilon == STEP:
        return False
    if fact.kind == "layer":
        return not fact.offset and (bool(fact.weight) or not fact.bias)
    if fact.kind != "rms" or fact.bias:
        return False
    return not fact.offset or (fact.offset == 1.0 and fact.cast != "before_weight")


def place_norms(flow: Flow) -> None:
    """Make each norm a call of a layer of the engine."""
    taken: set[str] = set()
    placed: list[Op] = []
    for op in flow.ops:
        if op.name != "Norm":
            placed.append(op)
            continue
        path = _path(flow, op, taken)
        taken.add(path)
        placed.append(flow.call(op, _member(flow, op, path), op.args, op.results))
    flow.ops = placed


def _path(flow: Flow, op: Op, taken: set[str]) -> str:
    """The module that owns the parameters, else the module whose whole work the norm is, else a name of its own."""
    fact: Norm = op.fact
    if fact.weight or fact.bias:
        return parent(fact.weight or fact.bias or "")
    if op.owner and sum(other.owner == op.owner for other in flow.ops) == 1:
        return op.owner
    number = sum(parent(path) == op.owner for path in taken)
    name = "norm" if not number else f"norm_{number + 1}"
    return f"{op.owner}.{name}" if op.owner else name


def _member(flow: Flow, op: Op, path: str) -> Member:
    fact: Norm = op.fact
    value = op.args[0].id
    spans_ranks = value in flow.sharded and len(flow.layouts[value].sizes) == 1
    if spans_ranks and value in flow.heads and fact.kind == "rms" and fact.weight and not fact.offset:
        kwargs: dict[str, Value] = {"eps": fact.epsilon, **_weight_dtype(fact)}
        return Member(path, "HeadsRMSNorm", list(flow.heads[value]), kwargs, op.where, sources=[path])
    if spans_ranks:
        flow.whole.append(Refusal(op.where, f"{fact.kind} norm", "it spans the heads of all tensor-parallel ranks"))
    size = flow.graph.parameters[fact.weight].shape[-1] if fact.weight else fact.size
    factory, settings = _layer(fact)
    return Member(path, factory, [size], {"eps": fact.epsilon, **settings}, op.where, sources=[path])


def _layer(fact: Norm) -> tuple[str, dict[str, Value]]:
    if fact.kind == "layer":
        if not fact.weight:
            return "LayerNorm", {"elementwise_affine": False}
        return "LayerNorm", {} if fact.bias else {"bias": False}
    if not fact.weight:
        return "RMSNorm", {"has_weight": False}
    return ("GemmaRMSNorm", {}) if fact.offset else ("RMSNorm", _weight_dtype(fact))


def _weight_dtype(fact: Norm) -> dict[str, Value]:
    """With its weight in float32 the engine's norm casts the product, as ``(w * x).to(dtype)`` does."""
    return {"dtype": Name("torch.float32")} if fact.cast == "after_weight" else {}
