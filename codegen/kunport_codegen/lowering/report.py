"""What a reader of the adapter wants to know: what was put into which layer, and what is still plain torch."""

from __future__ import annotations

from collections.abc import Iterable

from kunport_codegen.lowering.flow import Op, layer_of
from kunport_codegen.lowering.head import Head
from kunport_codegen.lowering.model import Opportunity
from kunport_codegen.lowering.rowwise import kernels_of
from kunport_codegen.lowering.states import FACTORIES
from kunport_codegen.lowering.structure import LEAVES, Body, bodies

_LAYOUT = frozenset(
    ("kernel", "view", "call", "enter", "layers", "split_heads", "input", "item", "chunk", "split", *LEAVES)
)


def describe(ops: Iterable[Op], head: Head) -> list[str]:
    """One line for each kind of layer that stands for several of the source's, in order of appearance."""
    lines: dict[str, None] = {}
    for op in ops:
        member = op.member
        if member is None or op.name != "call":
            continue
        if len(member.sources) > 1:
            names = ", ".join(source.rpartition(".")[2] for source in member.sources)
            lines[f"{names} in one {member.factory} ({member.name})"] = None
        elif member.factory in ("QKVParallelLinear", "MergedColumnParallelLinear"):
            lines[f"{member.name} as {member.factory}"] = None
        elif member.factory.endswith("AndMul"):
            lines[f"activation and product in {member.factory}"] = None
        elif member.returns == "residual" or (len(op.results) == 2 and "Norm" in member.factory):
            lines["residual additions in the norms after them"] = None
        elif member.factory in ("get_rope", "Attention", "FusedMoEFactory", "HeadsRMSNorm", *FACTORIES):
            lines[f"{member.name} by {member.factory}"] = None
    if head.processor.kwargs:
        lines[f"{' and '.join(head.processor.kwargs)} of the logits in LogitsProcessor"] = None
    return list(lines)


def describe_kernels(root: Body) -> list[str]:
    """A line for each generated kernel, in order of appearance."""
    return [f"{len(each.steps)} row-wise operators in one Triton kernel ({each.name})" for each in kernels_of(root)]


def opportunities(body: Body) -> list[Opportunity]:
    """Plain torch in the body and inside it, each operator of a class once. A residual addition is none."""
    found: dict[tuple[str, str], Opportunity] = {}
    _collect(body, found)
    return list(found.values())


def _collect(body: Body, found: dict[tuple[str, str], Opportunity]) -> None:
    for step in body.steps:
        for inner in bodies(step):
            _collect(inner, found)
        if step.name not in _LAYOUT and not (step.name == "add" and layer_of(step.owner)):
            found.setdefault((body.cls, step.name), Opportunity(step.name, body.cls, step.where))
