"""The reference run on the engine's values, twice: for what is true, and for how precise the reference is itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from kunport.validation.modules.alignment import align
from kunport.validation.modules.recording import Recording
from kunport.validation.modules.taps import Point, Tapped
from kunport.validation.numerics.calibrated import ThreeWay, judge, total


@dataclass(slots=True)
class Compared:
    """What was found at a point, over all requests; ``rows`` are the engine's tensors, for following values."""

    point: Point
    result: ThreeWay
    values: list[torch.Tensor]


@torch.inference_mode()
def replay(truth: nn.Module, reference: nn.Module, recording: Recording, dtype: torch.dtype) -> list[Compared]:
    """Every point in the order in which the reference reaches it.

    Args:
        truth: the reference in a wider precision.
        reference: the reference in the engine's.
        recording: of the engine.
        dtype: the engine's precision.
    """
    alignment = align(truth, recording)
    found: dict[Point, list[ThreeWay]] = {}
    values: dict[Point, list[torch.Tensor]] = {}
    for request in recording.requests:
        rows = recording.rows(request)
        ids = recording.token[rows][None]
        right: dict[Point, torch.Tensor] = {}
        own: dict[Point, tuple[torch.Tensor, torch.Tensor]] = {}

        def tell(point: Point, value: torch.Tensor, _: torch.Tensor, right: Any = right) -> None:
            right[point] = value.clone()

        def pair(point: Point, value: torch.Tensor, engine: torch.Tensor, own: Any = own) -> None:
            own[point] = value.clone(), engine

        for model, on_point in ((truth, tell), (reference, pair)):
            tapped = Tapped(model, alignment, recording, rows, torch.finfo(dtype).eps, on_point)
            with tapped.attached():
                logits = model(input_ids=ids, use_cache=False).logits
            tapped.final(logits)
        for point, (value, engine) in own.items():
            if point not in right:
                continue
            target, ours, true = (
                side if point.ordered else side.sort(dim=1).values for side in (engine, value, right[point])
            )
            found.setdefault(point, []).append(judge(target, ours, true, dtype, request))
            values.setdefault(point, []).append(engine)
    return [Compared(point, total(parts), values[point]) for point, parts in found.items()]
