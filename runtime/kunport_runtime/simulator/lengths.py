"""Lengths that the vendor wants twice, on the host and on the device, and starts of sequences."""

from __future__ import annotations

import torch
from torch import Tensor

from kunport_runtime.simulator.rules import require


def same_lengths(on_host: Tensor | None, on_device: Tensor | None) -> Tensor:
    """The lengths, once both are known to be there and equal."""
    if on_host is None or on_device is None:
        require("lengths_twice", False, "one of host and device is missing")
    assert on_host is not None  # for the type checker
    assert on_device is not None
    require("lengths_twice", on_host.device.type == "cpu", f"those of the host are on {on_host.device}")
    equal = on_host.shape == on_device.shape and bool((on_host == on_device.cpu()).all())
    require("lengths_twice", equal, f"{on_host.tolist()} on the host, {on_device.tolist()} on the device")
    return on_host


def starts(on_host: Tensor | None, on_device: Tensor | None, rows: int | None) -> list[int]:
    """Where sequences start, and the end; ``rows`` is what there is of them, None where pages hold them."""
    lod = same_lengths(on_host, on_device)
    numbers: list[int] = lod.tolist()
    holds = lod.dtype == torch.int32 and numbers[0] == 0 and numbers == sorted(numbers)
    require("lod_form", holds, f"starts are {numbers}, {lod.dtype}")
    require("lod_form", rows is None or numbers[-1] == rows, f"sequences end at {numbers[-1]}, rows at {rows}")
    return numbers
