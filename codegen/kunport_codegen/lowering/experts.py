"""Mixtures of experts: router logits and tokens into one fused layer."""

from __future__ import annotations

from typing import Any

from kunport_codegen.expression import Expr, Scalar, const, unwrap
from kunport_codegen.facts import Experts
from kunport_codegen.graph import DType, Guard, Ref
from kunport_codegen.lowering.errors import Refusal
from kunport_codegen.lowering.flow import Flow, Op, basename, parent
from kunport_codegen.lowering.members import QUANT, Apart, Member, Name, Own, Prefix, Value

FLOAT32 = DType("float32")
# What a router adds to the sum of the chosen scores (or bounds it by) is lost beside that sum up to here.
_LOST = 1e-12
# The alpha of an activation ``gate * sigmoid(alpha * gate)``.
_SLOPES = {"silu": 1.0, "quick_gelu": 1.702}
# Activations of experts that are not gated.
_PLAIN = ("silu", "gelu", "gelu_tanh", "relu2")
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
            placed.append(op)
            continue
        member = _member(flow, op, op.fact)
        args = op.args
        if not _engine_routes(op.fact):
            placed += (joined := _joined(flow, op))
            args = (op.args[0], Ref(joined[-1].results[0]))
        placed.append(flow.call(op, member, args, op.results))
    flow.ops = placed


def router_inputs(fact: Experts) -> tuple[int, ...]:
    """What of the router a mixture is given: its logits, or what it makes of them where the engine's makes other."""
    if _engine_routes(fact) or fact.weights is None or fact.choice is None:
        assert fact.logits is not None, "a router has logits, or weights and a choice"
        return (fact.logits,)
    return fact.weights, fact.choice


def _joined(flow: Flow, op: Op) -> list[Op]:
    """Weights and choice beside each other, as `kunport_model_adapters.experts.split_routing` takes them apart.

    Where a choice may be none, it becomes the first expert without a weight: the engine has no place for it.
    """
    made: list[Op] = []
    layout = flow.layouts[op.args[1].id]

    def then(name: str, *args: Any, dtype: DType = FLOAT32, **kwargs: Any) -> Ref:
        made.append(Op(name, args, kwargs, [flow.fresh(layout, dtype)], op.owner, op.where))
        return Ref(made[-1].results[0])

    weights, choice = then("to", op.args[1], FLOAT32), then("to", op.args[2], FLOAT32)
    if op.fact.absent:
        none = then("ge", choice, op.fact.experts, dtype=DType("bool"))
        weights, choice = then("masked_fill", weights, none, 0.0), then("masked_fill", choice, none, 0.0)
    then("cat", [weights, choice], dim=-1)
    return made


def _lacking(fact: Experts) -> str | None:
    """Why the engine's layer cannot be this mixture, or not as it is written here yet."""
    if not _engine_routes(fact) and (fact.weights is None or fact.choice is None):
        return "its router computes weights that the engine's does not"
    if fact.weighted != "output":
        return "its router weights what the experts read, not what they make"
    if not fact.gated:
        return _lacking_of_plain(fact)
    if fact.packing not in ("concatenated", "interleaved"):
        return f"its experts are {fact.packing}{' and transposed' if fact.transposed else ''}, the engine's are not"
    biases = tuple(filter(None, (fact.gate_up_bias, fact.down_bias)))
    if biases and biases != (f"{fact.gate_up}_bias", f"{fact.down}_bias"):
        return "its experts have biases that are not called after their weights"
    if (fact.limit is not None or fact.up_offset) and not _is_clamped(fact):
        return "its activation has limits or offsets that the engine's has not"
    return None


def _lacking_of_plain(fact: Experts) -> str | None:
    """The same for experts that are not gated."""
    if fact.activation not in _PLAIN or fact.transposed:
        turned = "transposed and " * fact.transposed
        return f"its experts are {turned}without a gate, by {fact.activation}, the engine's are not"
    return "its experts have biases and no gate, the engine's have not" if fact.gate_up_bias or fact.down_bias else None


def _engine_routes(fact: Experts) -> bool:
    """Whether the engine's own router computes what this one does."""
    grouped = fact.groups is not None and unwrap(fact.groups) > 1
    judges = not grouped or fact.group_score == ("sum of top 2" if fact.correction_bias else "max")
    epsilon = unwrap(fact.epsilon) or 0.0
    return fact.logits is not None and judges and fact.scoring in ("softmax", "sigmoid") and epsilon <= _LOST


def _is_clamped(fact: Experts) -> bool:
    """Whether the activation is ``gate * sigmoid(alpha * gate) * (up + offset)`` within limits, as the engine's is."""
    return fact.activation in _SLOPES and fact.limit is not None


def _member(flow: Flow, op: Op, fact: Experts) -> Member:
    path = parent(fact.gate_up)
    _, *sizes = flow.graph.parameters[fact.down].shape
    hidden, width = reversed(sizes) if fact.transposed else sizes
    kwargs: dict[str, Value] = {
        "num_experts": fact.experts,
        "top_k": fact.top_k,
        "hidden_size": hidden,
        "intermediate_size": width,
    }
    if _engine_routes(fact):
        kwargs |= {"renormalize": fact.renormalize, **_routing(flow, fact)}
    else:
        kwargs["custom_routing_function"] = Name("split_routing")
    apart = _apart(flow, op, fact)
    if apart is not None and apart.biases:
        kwargs["has_bias"] = True
        flow.whole.append(Refusal(op.where, op.name, "the biases of its experts are not shared out among ranks"))
    if fact.transposed and apart is None:
        kwargs["is_fused_checkpoint_transposed"] = True
    if fact.limit is not None:
        kwargs |= {
            "activation": "swigluoai_uninterleave",
            "swiglu_limit": fact.limit,
            "swiglu_alpha": _SLOPES[fact.activation],
            "swiglu_beta": fact.up_offset,
        }
    elif not fact.gated:
        kwargs["activation"] = f"{fact.activation}_no_mul"
    elif fact.activation != "silu":
        kwargs["activation"] = fact.activation
    names = checkpoint_names(flow, fact)
    if names != _DEFAULT_NAMES:
        kwargs["ckpt_names"] = list(names)
    kwargs |= {"quant_config": QUANT, "prefix": Prefix(path.rpartition(".")[2])}
    corrected = fact.correction_bias if _engine_routes(fact) else None
    tensors = {"e_score_correction_bias": corrected} if corrected else {}
    return Member(path, "FusedMoEFactory", [], kwargs, op.where, sources=[path], tensors=tensors, apart=apart)


def _apart(flow: Flow, op: Op, fact: Experts) -> Apart | None:
    """How experts are taken apart whose rows alternate, or that have biases; None for those that the engine loads."""
    biases = tuple(filter(None, (fact.gate_up_bias, fact.down_bias)))
    if fact.packing in ("concatenated", "single") and not biases:
        return None
    if _sources(flow, fact.gate_up) or _sources(flow, fact.down):
        flow.refuse(op, "its experts alternate rows or have biases, and lie one by one in the checkpoint")
    return Apart(fact.gate_up, fact.down, biases, fact.packing == "interleaved", fact.transposed)


def _routing(flow: Flow, fact: Experts) -> dict[str, Value]:
    """How experts are chosen and weighted, where that is not the plain way.

    The engine has scores, correction and scale for all devices in one place alone: the choice among groups. One group
    is no choice, and such a router is any other.
    """
    groups, top = (1, 1) if fact.groups is None or fact.top_groups is None else (fact.groups, fact.top_groups)
    assert fact.scoring is not None, "the engine has a formula for what it routes itself"
    plain = fact.scoring == "softmax" and not fact.correction_bias and fact.scale == 1.0
    if plain and unwrap(groups) == 1:
        return {}
    if isinstance(groups, Scalar) and groups.value == 1:
        # What the source does among several groups does not show where there is one.
        flow.guards.append(Guard(Expr("eq", (groups.expr, const(1))), True, fact.where))
        groups, top = 1, 1
    kwargs: dict[str, Value] = {"use_grouped_topk": True, "num_expert_group": groups, "topk_group": top}
    if fact.scoring != "softmax":
        kwargs["scoring_func"] = fact.scoring
    if fact.scale != 1.0:
        kwargs["routed_scaling_factor"] = fact.scale
    if fact.correction_bias:
        parameter = flow.graph.parameters[fact.correction_bias]
        flat = len(parameter.shape) > 1
        kwargs["e_score_correction_bias"] = Own(basename(parameter.path), parameter.shape, parameter.dtype, flat)
    return kwargs


def checkpoint_names(flow: Flow, fact: Experts) -> tuple[str, str, str | None]:
    """What the checkpoint calls gate, down and up of a single expert, as far as it stores experts one by one.

    Where there is no gate, what comes first takes its place.
    """
    gate_up, down = _sources(flow, fact.gate_up), _sources(flow, fact.down)
    if not fact.gated:
        one_by_one = len(gate_up) == len(down) == 1
        up, back = (gate_up[0], down[0]) if one_by_one else (basename(fact.gate_up), basename(fact.down))
        return up, back, None
    if len(gate_up) == 2 and len(down) == 1:
        return gate_up[0], down[0], gate_up[1]
    return _DEFAULT_NAMES


def _sources(flow: Flow, path: str) -> list[str]:
    """Names below one expert in the patterns that a stacked parameter is made from."""
    for rename in flow.graph.renames:
        if "stack" in rename.operations and path.endswith(rename.target.rpartition("*")[2].lstrip(".")):
            return [source.rpartition("*.")[2].removesuffix(".weight") for source in rename.sources]
    return []
