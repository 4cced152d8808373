"""Mixtures of experts: router logits and tokens into one fused layer."""

from __future__ import annotations

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Experts
from kunport_codegen.lowering.flow import Flow, Op, parent
from kunport_codegen.lowering.members import QUANT, Member, Prefix, Value

_DEFAULT_NAMES = ("gate_proj", "down_proj", "up_proj")


def place_experts(flow: Flow) -> None:
    """Make each recognised set of experts a call of the engine's fused layer."""
    placed: list[Op] = []
    for op in flow.ops:
        if op.name != "Experts":
            placed.append(op)
            continue
        if (reason := _lacking(op.fact)) is not None:
            flow.refuse(op, reason)
        member = _member(flow, op, op.fact)
        placed.append(flow.call(op, member, op.args, op.results))
    flow.ops = placed


def _lacking(fact: Experts) -> str | None:
    """Why the engine's layer cannot be this mixture, or not as it is written here yet."""
    if fact.correction_bias:
        return f"its choice is corrected by {fact.correction_bias}, which is not brought to the engine yet"
    if fact.groups is not None:
        return "it chooses among groups of experts, which is not brought to the engine yet"
    if fact.scoring not in ("softmax", "sigmoid") or fact.epsilon is not None or fact.weighted != "output":
        return "its router computes weights that the engine's does not"
    if unwrap(fact.scale) != 1.0 or fact.scale != 1.0:
        return "it scales the weights, which is not brought to the engine yet"
    if not fact.gated or fact.packing != "concatenated" or fact.transposed:
        return f"its experts are {fact.packing}{' and transposed' if fact.transposed else ''}, the engine's are not"
    if fact.gate_up_bias or fact.down_bias:
        return "its experts have biases, which are not brought to the engine yet"
    if fact.limit is not None or fact.up_offset:
        return "its activation has limits or offsets that the engine's has not"
    return None


def _member(flow: Flow, op: Op, fact: Experts) -> Member:
    path = parent(fact.gate_up)
    shape = flow.graph.parameters[fact.down].shape
    kwargs: dict[str, Value] = {
        "num_experts": fact.experts,
        "top_k": fact.top_k,
        "hidden_size": shape[-2],
        "intermediate_size": shape[-1],
        "renormalize": fact.renormalize,
    }
    if fact.scoring != "softmax":
        kwargs["scoring_func"] = fact.scoring
    if fact.activation != "silu":
        kwargs["activation"] = fact.activation
    names = checkpoint_names(flow, fact)
    if names != _DEFAULT_NAMES:
        kwargs["ckpt_names"] = list(names)
    kwargs |= {"quant_config": QUANT, "prefix": Prefix(path.rpartition(".")[2])}
    return Member(path, "FusedMoEFactory", [], kwargs, op.where, sources=[path])


def checkpoint_names(flow: Flow, fact: Experts) -> tuple[str, str, str]:
    """What the checkpoint calls gate, down and up of a single expert, as far as it stores experts one by one."""
    gate_up, down = _sources(flow, fact.gate_up), _sources(flow, fact.down)
    if len(gate_up) == 2 and len(down) == 1:
        return gate_up[0], down[0], gate_up[1]
    return _DEFAULT_NAMES


def _sources(flow: Flow, path: str) -> list[str]:
    """Names below one expert in the patterns that a stacked parameter is made from."""
    for rename in flow.graph.renames:
        if "stack" in rename.operations and path.endswith(rename.target.rpartition("*")[2].lstrip(".")):
            return [source.rpartition("*.")[2].removesuffix(".weight") for source in rename.sources]
    return []
