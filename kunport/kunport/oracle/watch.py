"""Watching a model run: the calls of its modules and its softmax attentions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Change = Callable[[Tensor], Tensor]

_PRODUCTS = {"matmul", "bmm", "__matmul__", "baddbmm"}


@dataclass(slots=True, eq=False)
class Call:
    """One call of a module: copies of what went in and came out.

    ``stack`` holds the modules around it, outermost first; ``began`` and ``ended`` are times on one clock.
    """

    module: nn.Module
    stack: tuple[nn.Module, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    began: int
    output: Any = None
    ended: int = -1

    @property
    def input(self) -> Tensor | None:
        """The first tensor that went in."""
        return first_tensor((self.args, self.kwargs))

    @property
    def result(self) -> Tensor | None:
        """The first tensor that came out."""
        return first_tensor(self.output)


@dataclass(slots=True, eq=False)
class Scores:
    """One softmax attention, batch 1, with the axes merged to heads.

    ``query`` and ``key`` ``[heads, sequence, head_dim]``, ``logits`` (what the softmax read) and ``weights``
    ``[heads, sequence, sequence]``, ``value`` ``[heads, sequence, value_dim]`` and ``output`` like it. ``sink`` is true
    where the softmax had one column more than there are keys. ``at`` is its time on the clock of the calls.
    """

    at: int
    stack: tuple[nn.Module, ...]
    query: Tensor
    key: Tensor
    logits: Tensor
    weights: Tensor
    sink: bool
    value: Tensor | None = None
    output: Tensor | None = None

    @property
    def owner(self) -> nn.Module:
        """The innermost module in whose forward the attention runs."""
        return self.stack[-1]


@dataclass(slots=True)
class Record:
    """What was seen, in order of the calls' beginnings."""

    calls: list[Call] = field(default_factory=list)
    scores: list[Scores] = field(default_factory=list)


@contextmanager
def watch(
    root: nn.Module,
    length: int,
    changes: dict[nn.Module, Change] | None = None,
    bypass: Collection[nn.Module] = (),
) -> Iterator[Record]:
    """Record what runs inside, for a sequence of ``length`` tokens.

    ``changes`` replace what their module puts out; a module in ``bypass`` puts out what went in.
    """
    record = Record()
    stack: list[nn.Module] = []
    open_calls: list[Call] = []
    clock = iter(range(10**9))
    changes = changes or {}

    def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
        call = Call(module, tuple(stack), snapshot(args), snapshot(kwargs), next(clock))
        record.calls.append(call)
        open_calls.append(call)
        stack.append(module)

    def leave(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        if module in bypass:
            output = first_tensor((args, kwargs))
        if module in changes:
            output = _changed(output, changes[module])
        stack.pop()
        call = open_calls.pop()
        call.output, call.ended = snapshot(output), next(clock)
        return output

    handles = []
    for module in root.modules():
        handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(module.register_forward_hook(leave, with_kwargs=True))
    try:
        with _AttentionMode(record, stack, length, clock):
            yield record
    finally:
        for handle in handles:
            handle.remove()


def first_tensor(value: Any) -> Tensor | None:
    """The first floating-point tensor in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        return value if value.is_floating_point() else None
    items = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return next((found for item in items if (found := first_tensor(item)) is not None), None)


def snapshot(value: Any) -> Any:
    """A copy in which later changes in place do not show; caches and other objects stay themselves."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if type(value) in (tuple, list):
        return type(value)(snapshot(item) for item in value)
    if isinstance(value, dict):
        return {key: snapshot(item) for key, item in value.items()}
    return value


def _changed(output: Any, change: Change) -> Any:
    if isinstance(output, Tensor):
        return change(output)
    return (change(output[0]), *output[1:])


class _AttentionMode(TorchFunctionMode):
    """Sees the products around each softmax over ``length`` keys."""

    def __init__(self, record: Record, stack: list[nn.Module], length: int, clock: Iterator[int]) -> None:
        super().__init__()
        self.record, self.stack, self.length, self.clock = record, stack, length, clock
        self.products: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in _PRODUCTS:
            self._product(*_operands(name, args, kwargs), result)
        elif name == "softmax":
            self._softmax(args[0] if args else kwargs["input"], result)
        return result

    def _product(self, left: Tensor, right: Tensor, result: Tensor) -> None:
        length = self.length
        if result.ndim >= 3 and result.shape[-2:] == (length, length) and left.shape[-1] != length:
            self.products = [*self.products[-3:], (left, right)]
        elif left.ndim >= 3 and left.shape[-2:] == (length, length) and right.shape[-2] == length:
            waiting = [each for each in self.record.scores[-2:] if each.value is None]
            if waiting and left.numel() == waiting[0].logits.numel():
                waiting[0].value = right.expand(*left.shape[:-2], *right.shape[-2:]).reshape(-1, *right.shape[-2:])
                waiting[0].output = result.reshape(-1, *result.shape[-2:])

    def _softmax(self, logits: Tensor, weights: Tensor) -> None:
        length = self.length
        if logits.ndim < 3 or logits.shape[-2] != length or logits.shape[-1] not in (length, length + 1):
            return
        heads = logits.numel() // (length * logits.shape[-1])
        fitting = [each for each in self.products if each[0].numel() // (length * each[0].shape[-1]) == heads]
        if not fitting:
            return
        left, right = fitting[-1]
        sink = logits.shape[-1] == length + 1
        last = logits.reshape(heads, length, -1)[..., :length], weights.reshape(heads, length, -1)[..., :length]
        query = left.reshape(heads, length, -1)
        key = right.expand(*left.shape[:-2], *right.shape[-2:]).transpose(-1, -2).reshape(heads, length, -1)
        self.record.scores.append(Scores(next(self.clock), tuple(self.stack), query, key, *last, sink))


def _operands(name: str, args: Any, kwargs: Any) -> tuple[Tensor, Tensor]:
    if name != "baddbmm":
        return args[0], args[1] if len(args) > 1 else kwargs.get("other", kwargs.get("mat2"))
    given = [*args[1:3], *(kwargs[key] for key in ("batch1", "batch2") if key in kwargs)]
    return given[0], given[1]


def close(left: Tensor, right: Tensor, tolerance: float = 1e-4) -> bool:
    """Whether two tensors agree, relative to the larger one's greatest element."""
    if left.shape != right.shape:
        return False
    scale = torch.maximum(left.abs().max(), right.abs().max()).item()
    return bool((left - right).abs().max().item() <= tolerance * scale + 1e-12)
