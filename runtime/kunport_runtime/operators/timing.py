"""How long operators take: every call with its layer, its provider and its bytes, on the clock of its device.

``KUNPORT_OPS_PROFILE`` names a folder; every process of a server leaves a profile there when it ends, which `kunport
profile` reads. On a device the clock is that of its stream, so that nothing waits for a call; a call that a graph
captures is not timed, and replays are not seen: run a server with ``--enforce-eager`` to see its operators.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from kunport_runtime.operators.accounting import Decision, current_layer
from kunport_runtime.operators.binding import Binding

VARIABLE = "KUNPORT_OPS_PROFILE"
_HOST = torch.device("cpu")
_MOST_SPANS = 100_000  # kept one by one, for a trace; totals go on
_MOST_PENDING = 1_000  # calls whose time on the device has not been asked for
_POOLS = {"blocks", "slots", "vocab"}  # of what has these first, a call touches rows that only its numbers name


@dataclass(slots=True)
class Total:
    """All calls of one kind.

    Attributes:
        layer: as `accounting.layer` named it; "" outside.
        operator: its name.
        provider: who ran it.
        skipped: provider -> why it did not, for each that was asked before.
        count: of calls.
        nanoseconds: of all of them.
        bytes: of their tensors, read and written; None where a call has a pool, of which it touches a part.
    """

    layer: str
    operator: str
    provider: str
    skipped: dict[str, str]
    count: int = 0
    nanoseconds: int = 0
    bytes: int | None = 0


@dataclass(frozen=True, slots=True)
class Span:
    """One call: when it began, nanoseconds of the host's clock, and how long it took."""

    begin: int
    nanoseconds: int
    layer: str
    operator: str
    provider: str


@dataclass(slots=True)
class _Pending:
    total: Total
    start: Any
    end: Any


@dataclass(slots=True)
class Timer:
    """Times calls; the dispatcher has one where a profile is wanted.

    Attributes:
        totals: by layer and decision.
        spans: the first calls, one by one.
        device: of the last call.
    """

    totals: dict[tuple[str, Decision], Total] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    device: torch.device = _HOST
    _pending: list[_Pending] = field(default_factory=list)
    _base: tuple[Any, int] | None = None

    def run(self, decision: Decision, call: Binding) -> None:
        """Run a call on its provider, and note how long it took."""
        function: Callable[..., None] = decision.function
        if call.device.type == "cuda":
            self._run_on_device(function, decision, call)
            return
        begin = time.perf_counter_ns()
        function(**call.arguments)
        self._note(self._total(decision, call), begin, time.perf_counter_ns() - begin)

    def _run_on_device(self, function: Callable[..., None], decision: Decision, call: Binding) -> None:
        if torch.cuda.is_current_stream_capturing():
            function(**call.arguments)
            return
        start, end = _mark(), _mark()
        if self._base is None:
            start.record()
            start.synchronize()
            self._base = start, time.perf_counter_ns()
            start = _mark()
        start.record()
        function(**call.arguments)
        end.record()
        self._pending.append(_Pending(self._total(decision, call), start, end))
        if len(self._pending) >= _MOST_PENDING:
            self.settle()

    def settle(self) -> None:
        """Wait for the device, and note the times of all calls that were launched."""
        pending, self._pending = self._pending, []
        if not pending or self._base is None:
            return
        pending[-1].end.synchronize()
        base, begin = self._base
        for each in pending:
            offset = round(1e6 * base.elapsed_time(each.start))
            self._note(each.total, begin + offset, round(1e6 * each.start.elapsed_time(each.end)))

    def _total(self, decision: Decision, call: Binding) -> Total:
        self.device = call.device
        key = current_layer(), decision
        total = self.totals.get(key)
        if total is None:
            total = Total(key[0], decision.operator, decision.provider, dict(decision.skipped))
            self.totals[key] = total
        total.count += 1
        moved = bytes_of(call)
        total.bytes = None if moved is None or total.bytes is None else total.bytes + moved
        return total

    def _note(self, total: Total, begin: int, nanoseconds: int) -> None:
        total.nanoseconds += nanoseconds
        if len(self.spans) < _MOST_SPANS:
            self.spans.append(Span(begin, nanoseconds, total.layer, total.operator, total.provider))


def copy_rate(device: torch.device, size: int = 1 << 26) -> float:
    """Bytes a second, read and written, of the best of five copies of `size` bytes."""
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(5):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        begin = time.perf_counter()
        target.copy_(source)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - begin)
    return 2 * size / best


def _mark() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def bytes_of(call: Binding) -> int | None:
    """The bytes of a call's tensors, what is updated twice; None where one of them is a pool."""
    total = 0
    for argument, wanted in call.contract.tensors.items():
        tensor = call.arguments.get(argument)
        if tensor is None:
            continue
        if any(name in _POOLS for _, name in wanted.shape[0].terms):
            return None
        total += tensor.numel() * tensor.element_size() * (2 if wanted.role == "updates" else 1)
    return total
