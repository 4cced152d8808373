"""The labels of a mixture of experts: how tokens choose, by which weights, and what the experts are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from kunport.oracle.activations import ACTIVATIONS, OTHER_NAMES
from kunport.oracle.feedforward import FeedForward
from kunport.oracle.labels import Scope
from kunport.oracle.structure import Layer
from kunport.oracle.watch import Call, close

_SCORINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda logits: logits.softmax(-1),
    "sigmoid": torch.sigmoid,
    "sqrtsoftplus": lambda logits: functional.softplus(logits).sqrt(),
}
_OTHER_SCORINGS = {"sqrtsoftplus": ["sqrt_softplus"]}


@dataclass(frozen=True, slots=True)
class Choice:
    """What the experts were given: ``index`` and ``weights`` ``[tokens, top_k]``, for ``hidden`` ``[tokens, size]``."""

    call: Call
    hidden: Tensor
    index: Tensor
    weights: Tensor


def find_choices(layer: Layer) -> list[Choice]:
    """The calls of experts in a layer: those that are given indices and as many weights."""
    found = []
    for call in layer.calls:
        tensors = [each for each in (*call.args, *call.kwargs.values()) if isinstance(each, Tensor)]
        index = next((each for each in tensors if each.dtype == torch.int64 and each.ndim == 2), None)
        if index is None or not list(call.module.parameters()):
            continue
        weights = [each for each in tensors if each.is_floating_point() and each.shape == index.shape]
        hidden = [each for each in tensors if each.is_floating_point() and each.shape != index.shape]
        if len(weights) == 1 and len(hidden) == 1:
            found.append(Choice(call, hidden[0].reshape(len(index), -1), index, weights[0]))
    return found


def label_experts(layer: Layer, choice: Choice, parts: dict[nn.Module, FeedForward], scope: Scope, config: Any) -> None:
    """Label router and experts of a layer that has one mixture."""
    scope.label("router.top_k", choice.index.shape[-1])
    _label_router(layer, choice, scope, config)
    own = dict(choice.call.module.named_parameters())
    scope.label("experts.bias", any("bias" in name for name in own))
    activation = _expert_activation(choice)
    if activation:
        scope.label("experts.activation", activation, *OTHER_NAMES.get(activation, []))
    else:
        scope.skip("experts.activation", "one expert alone is none of the known forms")
    _label_shared(layer, choice, parts, scope)


def _label_router(layer: Layer, choice: Choice, scope: Scope, config: Any) -> None:
    if bool((choice.index == choice.index[0, 0]).all()):  # any scores would do
        scope.skip("router", "every token chose the same expert")
        return
    for logits in _logits(layer, choice):
        for scoring, function in _SCORINGS.items():
            found = _weighting(function(logits.float()), choice)
            if found is None:
                continue
            renormalize, scale = found
            scope.label("router.scoring", scoring, *_OTHER_SCORINGS.get(scoring, []))
            scope.label("router.experts", logits.shape[-1])
            scope.label("router.scale", scale)
            if choice.index.shape[-1] > 1:
                scope.label("router.renormalize", renormalize)
            _label_selection(layer, choice, function(logits.float()), scope, config)
            return
    scope.skip("router", "no known scoring of any logits gives the experts' weights")


def _logits(layer: Layer, choice: Choice) -> Iterator[Tensor]:
    """Whatever could be the logits ``[tokens, experts]``: outputs of modules, and products with a router's weight."""
    tokens = len(choice.index)
    for call in layer.calls:
        if call.began > choice.call.began:
            break
        outputs = call.output if isinstance(call.output, tuple) else (call.output,)
        made = [each for each in outputs if isinstance(each, Tensor) and each.is_floating_point()]
        weight, bias = getattr(call.module, "weight", None), getattr(call.module, "bias", None)
        read = call.input
        if isinstance(weight, Tensor) and weight.ndim == 2 and read is not None and read.shape[-1] == weight.shape[1]:
            made.append(functional.linear(read, weight.detach(), None if bias is None else bias.detach()))
        for each in made:
            if each.shape[-1] > choice.index.shape[-1] and each.numel() == tokens * each.shape[-1]:
                yield each.reshape(tokens, -1)


def _weighting(scores: Tensor, choice: Choice) -> tuple[bool, float] | None:
    """Whether the chosen scores are divided by their sum, and the factor on the weights."""
    if int(choice.index.max()) >= scores.shape[-1]:
        return None
    chosen = scores.gather(1, choice.index)
    for renormalize, expected in ((False, chosen), (True, chosen / chosen.sum(-1, keepdim=True))):
        factor = float((choice.weights / expected).median())
        if bool(((choice.weights - factor * expected).abs() <= 1e-3 * choice.weights.abs()).all()):
            return renormalize, factor
    return None


def _label_selection(layer: Layer, choice: Choice, scores: Tensor, scope: Scope, config: Any) -> None:
    """Label groups and correction bias, where all ways to choose that fit agree."""
    experts = scores.shape[-1]
    biases: list[Tensor | None] = [None]
    for call in layer.calls:
        for tensor in (*call.module.parameters(recurse=False), *call.module.buffers(recurse=False)):
            if tensor.numel() == experts and tensor.is_floating_point():
                biases.append(tensor.detach().flatten().float())
    groups: list[int | None] = [None, *(size for size in range(2, experts) if experts % size == 0)]
    fitting = {
        (count, bias is not None)
        for bias, count in product(biases, groups)
        if _chooses(scores if bias is None else scores + bias, choice.index, count)
    }
    if len({biased for _, biased in fitting}) == 1:
        scope.label("router.correction_bias", next(iter(fitting))[1])
    else:
        scope.skip("router.correction_bias", "several ways to choose fit, or none")
    limits = {count for count, _ in fitting}
    if None in limits and not _names_groups(config):
        limits = {None}  # a limit that never shows and that no field speaks of
    if len(limits) == 1:
        count = next(iter(limits))
        scope.label("router.groups", count, *([1] if count is None else []))
    else:
        scope.skip("router.groups", "several ways to choose fit, or none")


def _names_groups(config: Any) -> bool:
    """Whether a field of the configuration sets groups of experts."""
    return any("group" in name and isinstance(value, int) and value > 1 for name, value in config.to_dict().items())


def _chooses(scores: Tensor, index: Tensor, groups: int | None) -> bool:
    """Whether taking the largest scores, within the best groups, chooses the experts that were chosen."""
    wanted = index.sort(-1).values
    top_k = index.shape[-1]
    if groups is None:
        return torch.equal(scores.topk(top_k).indices.sort(-1).values, wanted)
    grouped = scores.reshape(len(scores), groups, -1)
    size = grouped.shape[-1]
    for best, kept, fill in product((1, min(2, size)), range(1, groups), (0.0, float("-inf"))):
        chosen = grouped.topk(best).values.sum(-1).topk(kept).indices
        mask = torch.zeros(len(scores), groups, dtype=torch.bool).scatter(1, chosen, True)
        masked = grouped.masked_fill(~mask[..., None], fill).reshape(scores.shape)
        if kept * size >= top_k and torch.equal(masked.topk(top_k).indices.sort(-1).values, wanted):
            return True
    return False


def _expert_activation(choice: Choice) -> str:
    """The activation, from what the first expert alone makes of larger inputs."""
    own = {name.rpartition(".")[2]: parameter.detach() for name, parameter in choice.call.module.named_parameters()}
    first, down = own.get("gate_up_proj", own.get("up_proj")), own.get("down_proj")
    if first is None or down is None or set(own) > {"gate_up_proj", "up_proj", "down_proj"}:
        return ""
    hidden = 3.0 * torch.randn(choice.hidden.shape, generator=torch.Generator().manual_seed(0))
    index, weights = torch.zeros_like(choice.index[:, :1]), torch.ones_like(choice.weights[:, :1])
    values = [_replaced(each, choice, hidden, index, weights) for each in choice.call.args]
    named = {key: _replaced(each, choice, hidden, index, weights) for key, each in choice.call.kwargs.items()}
    try:
        with torch.no_grad():
            result = choice.call.module(*values, **named)
    except Exception:  # an implementation that wants as many experts as the router gives
        return ""
    up = hidden @ (first[0].T if first.shape[-1] == hidden.shape[-1] else first[0])
    for name, function in ACTIVATIONS.items():
        halves, strided = up.chunk(2, -1), (up[:, 0::2], up[:, 1::2])
        inner = (
            [function(up)]
            if "up_proj" in own
            else [function(gate) * other for gate, other in (halves, halves[::-1], strided, strided[::-1])]
        )
        for each in inner:
            matrix = down[0].T if down.shape[-1] == each.shape[-1] else down[0]
            if each.shape[-1] == matrix.shape[0] and close((each @ matrix).reshape(result.shape), result, 1e-5):
                return name
    return ""


def _replaced(value: object, choice: Choice, hidden: Tensor, index: Tensor, weights: Tensor) -> object:
    if not isinstance(value, Tensor):
        return value
    if value.shape == choice.index.shape:
        return index if value.dtype == torch.int64 else weights
    return hidden.reshape(value.shape)


def _label_shared(layer: Layer, choice: Choice, parts: dict[nn.Module, FeedForward], scope: Scope) -> None:
    """How many experts every token passes: the width of the dense part beside the experts, in experts."""
    block = choice.call.stack[-1]
    whole, routed = layer.call_of(block), choice.call.result
    if whole is None or whole.result is None or routed is None or whole.result.numel() != routed.numel():
        scope.skip("experts.shared", "the experts' output is not the block's")
        return
    if close(whole.result.reshape(routed.shape), routed, 1e-5):
        scope.label("experts.shared", 0)
        return
    beside = [form for module, form in parts.items() if module in set(block.modules())]
    down = dict(choice.call.module.named_parameters()).get("down_proj")
    if len(beside) != 1 or down is None:
        scope.skip("experts.shared", "what is added to the experts' output is no single dense part")
        return
    width = min(down.shape[1:]) if choice.hidden.shape[-1] == max(down.shape[1:]) else max(down.shape[1:])
    scope.label("experts.shared", max(1, beside[0].size // width), 1)
