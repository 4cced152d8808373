"""Whether the graphs of a case compute what the model itself computes, in float32."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache

from kunport.errors import KunportError
from kunport.tiny_models import build, find_case
from kunport.validation.executor import advance, execute
from kunport.validation.readings import Readings

BAR = 1e-6  # of the largest difference over the largest logit
SIZES = ((2, 7), (3, 12))  # batch and length; the analysis takes its own
STEPS = 4
# What a model's output may call its cache; its forward takes it by the same name.
_CACHES = ("past_key_values", "cache_params", "state")

State = dict[str, torch.Tensor]


@dataclass(slots=True)
class Row:
    """What came out for a case.

    Attributes:
        case: its name.
        prefill: for each size the relative error of the logits without a cache, or why there is none.
        decode: the same for the prefill and the steps with a cache, the largest of them; "" where the model has none.
        unknowns: nodes that were not understood, where they stand and why.
        readings: how often the model was read: again where the source decides something on the length.
        seconds: of everything, the model's making included.
    """

    case: str
    prefill: list[float | str] = field(default_factory=list)
    decode: list[float | str] = field(default_factory=list)
    unknowns: list[str] = field(default_factory=list)
    readings: int = 0
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """``equal``, ``unknown`` (and said so), ``failed`` (refused or crashed) or ``differs``."""
        results = [*self.prefill, *self.decode]
        if any(isinstance(each, float) and not each <= BAR for each in results):
            return "differs"
        if any(isinstance(each, str) and not each.startswith("library:") for each in results):
            return "unknown" if self.unknowns else "failed"
        return "equal"


def compare(name: str) -> Row:
    """Builds the tiny model of a case, reads it, and runs both.

    Raises:
        Exception: whatever the library or the analysis cannot do at all.
    """
    begin, row = time.perf_counter(), Row(name)
    config, model = build(find_case(name))
    config.architectures = [type(model).__name__]
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        readings = Readings(folder)
        state = _state(model)
        row.prefill = [_measured(_prefill, model, readings, state, *size) for size in SIZES]
        if readings.decodes:
            row.decode = [_measured(_decode, model, readings, state, *size) for size in SIZES]
    row.unknowns = readings.unknowns()
    row.readings = readings.count
    row.seconds = time.perf_counter() - begin
    return row


def _state(model: torch.nn.Module) -> State:
    """Parameters as they are: torch multiplies in another order by one that may learn."""
    return dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))


def _measured(run: Callable[..., float], *arguments: Any) -> float | str:
    try:
        return run(*arguments)
    except KunportError as error:
        return error.problem
    except LibraryError as error:
        return f"library: {error}"


class LibraryError(Exception):
    """The library itself cannot decode the model with its cache."""


def _tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(5, 250, (batch, length), generator=torch.Generator().manual_seed(length))


def _error(got: torch.Tensor, expected: torch.Tensor) -> float:
    if got.shape != expected.shape:
        return float("inf")
    return float((got - expected).abs().max() / expected.abs().max())


@torch.no_grad()
def _prefill(model: Any, readings: Readings, state: State, batch: int, length: int) -> float:
    tokens = _tokens(batch, length)
    graph = readings.whole(batch, length)
    return _error(execute(graph, state, tokens), model(input_ids=tokens, use_cache=False).logits)


@torch.no_grad()
def _decode(model: Any, readings: Readings, state: State, batch: int, length: int) -> float:
    """The largest error of the prefill and of the steps after it."""
    tokens = _tokens(batch, length + STEPS)
    expected, past = _library(model, tokens[:, :length], {})
    if not past:
        expected, past = _library(model, tokens[:, :length], {"past_key_values": DynamicCache(config=model.config)})
    got, cache = advance(readings.prefill(batch, length), state, tokens[:, :length])
    errors = [_error(got, expected)]
    for place in range(length, length + STEPS):
        token = tokens[:, place : place + 1]
        expected, past = _library(model, token, past)
        got, cache = advance(readings.step(batch, place), state, token, cache)
        errors.append(_error(got, expected))
    return max(errors)


def _library(model: Any, tokens: torch.Tensor, past: dict[str, Any]) -> tuple[torch.Tensor, dict[str, Any]]:
    """The model's own logits, and its cache: the one that it hands out, or that it was given as `generate` does."""
    try:
        output = model(input_ids=tokens, use_cache=True, **past)
    except Exception as error:  # whatever the library raises is the answer
        raise LibraryError(f"{type(error).__name__}: {error}") from error
    held = {name: getattr(output, name, None) for name in _CACHES}
    return output.logits, dict([pair for pair in held.items() if pair[1] is not None][:1]) or past
