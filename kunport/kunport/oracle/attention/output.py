"""From the combined heads to the attention's result: gate and clipping."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from kunport.oracle.attention.probe import Probe, ProbeError, calls_of
from kunport.oracle.watch import close

_AMPLIFIED = 1e4
_GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu,
    "softplus": torch.nn.functional.softplus,
    "tanh": torch.tanh,
    "2*sigmoid": lambda tensor: 2 * torch.sigmoid(tensor),
}


def find_gate(probe: Probe) -> str | None:
    """What multiplies the combined heads before the output projection: None, or the function of a projection.

    Raises:
        ProbeError: the output projection reads neither the combined heads nor a known gate's product.
    """
    combined = _combined(probe)
    ending = calls_of(probe.base.record, probe.output_projection)[0].input
    if ending is None or ending.numel() != combined.numel():
        raise ProbeError("the output projection does not read the combined heads")
    ending = ending.reshape(combined.shape)
    if close(ending, combined, 1e-5) or close(ending, _normalised(probe, combined), 1e-5):
        return None
    ratio = ending / combined
    for leaf in probe.leaves:
        for call in calls_of(probe.base.record, leaf):
            made = call.result
            if made is None or made.numel() % probe.length:
                continue
            for name, function in _GATES.items():
                if _columns_match(ratio, function(made.reshape(probe.length, -1))):
                    return name
    raise ProbeError("the combined heads are changed before the output projection in an unknown way")


def has_late_sink(probe: Probe) -> bool:
    """Whether a learned sink scales the combined heads after the softmax.

    A sink s is one logit more in the softmax: it leaves ``sigmoid(logsumexp(logits) - s)`` of what the heads combine.
    """
    combined = _combined(probe)
    ending = calls_of(probe.base.record, probe.output_projection)[0].input
    if ending is None or ending.numel() != combined.numel():
        return False
    scores = probe.base.scores
    ratio = (ending.reshape(combined.shape) / combined).reshape(probe.length, scores.logits.shape[0], -1)
    share = ratio.median(-1).values
    if not close(ratio, share[..., None].expand(ratio.shape), 1e-3) or not bool(((share > 0) & (share < 1)).all()):
        return False
    sink = torch.logsumexp(scores.logits, -1).T - torch.logit(share)
    return bool((sink - sink[:1]).abs().max() < 1e-2)


def _combined(probe: Probe) -> Tensor:
    """``[sequence, heads * value_dim]``."""
    output = probe.base.scores.output
    if output is None:
        raise ProbeError("the combined heads were not seen")
    return output.transpose(0, 1).reshape(probe.length, -1)


def _normalised(probe: Probe, combined: Tensor) -> Tensor:
    """What a norm that reads the combined heads makes of them; they themselves where there is none."""
    for call in probe.base.record.calls:
        read, made = call.input, call.result
        if call.module not in probe.norms or read is None or made is None or read.numel() != combined.numel():
            continue
        if close(read.reshape(combined.shape), combined, 1e-6):
            return made.reshape(combined.shape)
    return combined


def _columns_match(ratio: Tensor, gates: Tensor) -> bool:
    """Whether every column of ``ratio`` ``[sequence, n]`` is a column of ``gates`` ``[sequence, m]``."""
    distance = (ratio[:, :, None] - gates[:, None, :]).abs().amax(0)
    return bool((distance.amin(1) < 1e-3).all())


def find_clip(probe: Probe) -> float | None:
    """The bound to which the projections are clamped, None without.

    Raises:
        ProbeError: the value is neither clamped nor a linear function of its projection.
    """
    projection = probe.projections["value"]
    norms = probe.norms_after(projection, "value")
    before = probe.run(bypass=norms).scores.value
    after = probe.run({projection: lambda out: out * _AMPLIFIED}, norms).scores.value
    if before is None or after is None:
        raise ProbeError("the value was not seen")
    if close(after, before * _AMPLIFIED):
        return None
    top = float(after.abs().max())
    if float((after.abs() > 0.999 * top).float().mean()) > 0.9:
        return top
    raise ProbeError("the value is no linear function of its projection")
