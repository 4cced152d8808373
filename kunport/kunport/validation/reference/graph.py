"""The model graph against the model it was read from, on the same weights and prompts."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch


@torch.inference_mode()
def check_graph(
    path: Path,
    checkpoint: Path,
    model: torch.nn.Module,
    prompts: Sequence[Sequence[int]],
    expected: Sequence[torch.Tensor],
) -> dict[str, Any]:
    """Execute the graph on every prompt; the largest difference of its logits, absolute and relative.

    ``path`` is the pickled graph of ``checkpoint``, written by the process that started this one, and ``expected`` the
    model's logits for each prompt, ``[len(prompt), V]``. Where the source decides something on the length of a prompt,
    the checkpoint is read again for that length.

    Relative is to the largest finite logit of the prompt: a logit near zero is no more precise than its neighbours.
    """
    from kunport.validation.executor import execute
    from kunport.validation.readings import Readings

    readings = Readings(checkpoint, pickle.loads(path.read_bytes()))
    tensors = model.state_dict()
    absolute = relative = 0.0
    for prompt, logits in zip(prompts, expected, strict=True):
        graph = readings.whole(1, len(prompt))
        got = execute(graph, tensors, torch.tensor([list(prompt)]))[0]
        difference = torch.where(got == logits, 0.0, got - logits).abs().max().item()
        scale = logits[torch.isfinite(logits)].abs().max().item()
        absolute = _worse(absolute, difference)
        relative = _worse(relative, difference / scale)
    return {
        "positions": sum(map(len, prompts)),
        "readings": readings.count,
        "max_absolute": absolute,
        "max_relative": relative,
    }


def _worse(so_far: float, value: float) -> float:
    """The larger, NaN being the largest."""
    return value if not value <= so_far else so_far
