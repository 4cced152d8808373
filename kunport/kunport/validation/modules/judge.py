"""A recording judged: its logits against the reference's own, and its modules one by one."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from kunport.validation.modules.alignment import align
from kunport.validation.modules.fault import first_fault
from kunport.validation.modules.recorder import LOGITS
from kunport.validation.modules.recording import Recording
from kunport.validation.modules.replay import replay
from kunport.validation.numerics.calibrated import FLOOR, RATIO, ThreeWay, judge
from kunport.validation.numerics.metrics import agreement, divergence, measure
from kunport.validation.reference.load import load
from kunport.validation.report import Modules

WIDER = {torch.float32: torch.float64, torch.bfloat16: torch.float32, torch.float16: torch.float32}


class Judge:
    """The reference of one checkpoint, in the engine's precision and in a wider one.

    Raises:
        KunportError: the checkpoint cannot be loaded (`load`).
    """

    def __init__(self, checkpoint: Path, dtype: torch.dtype, *, trust_remote_code: bool = False) -> None:
        self._dtype = dtype
        self._reference = self._load(checkpoint, dtype, trust_remote_code)
        self._truth = self._load(checkpoint, WIDER[dtype], trust_remote_code)

    def _load(self, checkpoint: Path, dtype: torch.dtype, trust: bool) -> nn.Module:
        model, _ = load(checkpoint, trust_remote_code=trust)
        return model.to(dtype)

    @torch.inference_mode()
    def __call__(self, recording: Path, adapter: Path | None) -> Modules:
        """Compare everything in a recording; ``adapter`` is the file that holds the model, for the lines."""
        recorded = Recording.load(recording)
        got, own, true, ratio = self._logits(recorded)
        compared = replay(self._truth, self._reference, recorded, self._dtype)
        fault = first_fault(compared, recorded, align(self._truth, recorded), self._truth, adapter)
        metrics = measure(got, true, self._dtype)
        return Modules(
            points=len(compared),
            ratio=ratio.ratio,
            allowed=RATIO,
            max_error=_largest(got, true),
            reference_error=_largest(own, true),
            divergence=divergence(got, true),
            agreement=agreement(got, true),
            cosine=metrics.cosine,
            ulp=metrics.ulp,
            fault=fault,
        )

    def _logits(self, recording: Recording) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, ThreeWay]:
        """Log-probabilities ``[rows, V]`` on the recorded tokens, nothing put in their place: engine's, own, true."""
        sides: list[list[torch.Tensor]] = [[], [], []]
        for request in recording.requests:
            rows = recording.rows(request)
            ids = recording.token[rows][None]
            own, true = (model(input_ids=ids, use_cache=False).logits[0] for model in (self._reference, self._truth))
            for side, logits in zip(sides, (recording.calls[LOGITS].outputs[0][rows], own, true), strict=True):
                side.append(logits[:, : true.shape[1]].double().log_softmax(-1))
        got, own, true = (torch.cat(side) for side in sides)
        # Behind a whole model the reference is never exact, as it may be in one module: no floor in a narrow precision.
        floor = FLOOR if self._dtype == torch.float32 else 0.0
        return got, own, true, judge(got, own, true, self._dtype, floor=floor)


def _largest(values: torch.Tensor, true: torch.Tensor) -> float:
    """The largest difference, equal infinities being none."""
    return float(torch.where(values == true, 0.0, (values - true).abs()).max())
