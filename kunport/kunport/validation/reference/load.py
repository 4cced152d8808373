"""Loading the reference, and refusing a checkpoint that would leave part of it to chance."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from kunport.errors import KunportError


def load(checkpoint: Path, *, trust_remote_code: bool = False) -> tuple[torch.nn.Module, list[str]]:
    """The model in float32 on the CPU, attention and experts eager, and the checkpoint's keys that it does not use.

    Raises:
        KunportError: the checkpoint lacks a tensor or has one of another shape: Transformers would go on with
            random values, and nothing could be compared with that.
    """
    model, info = AutoModelForCausalLM.from_pretrained(
        checkpoint,
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",
        local_files_only=True,
        trust_remote_code=trust_remote_code,
        ignore_mismatched_sizes=True,  # reported below, with the tensor's name
        output_loading_info=True,
    )
    _refuse(checkpoint, "lacks", sorted(info["missing_keys"]))
    mismatched = sorted(info["mismatched_keys"], key=str)
    _refuse(checkpoint, "has in another shape than the model's", [_shapes(*entry) for entry in mismatched])
    return model.eval(), sorted(info["unexpected_keys"])


def parameter_count(model: torch.nn.Module) -> int:
    """Number of weights; a tensor that is used in two places counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _shapes(name: str, found: Iterable[int], wanted: Iterable[int]) -> str:
    return f"{name} ({list(found)}, the model has {list(wanted)})"


def _refuse(checkpoint: Path, what: str, names: list[Any]) -> None:
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise KunportError(
            f"The checkpoint {checkpoint} {what}: {names[0]}{more}.",
            "Download or save it again, with the config.json that belongs to it.",
        )
