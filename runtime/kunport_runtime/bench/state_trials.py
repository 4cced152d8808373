"""Trials of operators that keep a state: a token of each of 256 sequences, and 512 of each of 8, beside a copy.

Two numbers, for a token of each: the states, read and written once. For many tokens: what goes in and comes out, which
says how far a scan that goes token by token is from what bytes allow.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from kunport_runtime.bench import state_peers
from kunport_runtime.bench.row_trials import launcher, trial_of
from kunport_runtime.bench.trial import Trial, wanted
from kunport_runtime.operators.registry import registry
from kunport_runtime.providers.triton.tuning import Config, forced

Arguments = dict[str, Any]
BATCHES = ((256, 1), (8, 512))  # sequences and tokens of each


def _normal(device: str, *shape: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(shape, device=device).mul_(scale).to(torch.bfloat16)


def batch_of(device: str, sequences: int, length: int) -> Arguments:
    """Sequences of a length each, all with a state."""
    return {
        "query_start_loc": torch.arange(sequences + 1, device=device, dtype=torch.int32) * length,
        "state_slots": torch.randperm(sequences, device=device).to(torch.int32),
        "has_initial_state": torch.ones(sequences, device=device, dtype=torch.bool),
    }


def _short_convolution(device: str, sequences: int, tokens: int, channels: int = 8192, width: int = 4) -> Arguments:
    return {
        "out": _normal(device, tokens, channels),
        "x": _normal(device, tokens, channels),
        "weight": _normal(device, channels, width, scale=0.5),
        "bias": _normal(device, channels),
        "state": _normal(device, sequences, channels, width - 1),
        "activation": "silu",
    }


def _mamba1(device: str, sequences: int, tokens: int, channels: int = 8192, size: int = 16) -> Arguments:
    """Falcon Mamba 7B's sizes."""
    rows = {name: _normal(device, tokens, channels) for name in ("out", "x", "dt", "gate")}
    return rows | {
        "a": -torch.rand(channels, size, device=device) - 0.1,
        "b": _normal(device, tokens, size, scale=0.25),
        "c": _normal(device, tokens, size),
        "d": _normal(device, channels),
        "dt_bias": _normal(device, channels),
        "state": _normal(device, sequences, channels, size),
        "dt_softplus": True,
    }


def _mamba2(device: str, sequences: int, tokens: int, heads: int = 128, head: int = 64, size: int = 128) -> Arguments:
    """Codestral Mamba's sizes, in 8 groups."""
    return {
        **{name: _normal(device, tokens, heads, head) for name in ("out", "x")},
        "dt": _normal(device, tokens, heads),
        "a": -torch.rand(heads, device=device) - 0.1,
        "b": _normal(device, tokens, 8, size, scale=0.1),
        "c": _normal(device, tokens, 8, size),
        "d": _normal(device, heads),
        "dt_bias": _normal(device, heads),
        "state": _normal(device, sequences, heads, head, size),
        "dt_softplus": True,
        "dt_min": 0.0,
        "dt_max": 1e9,
    }


def _delta(device: str, sequences: int, tokens: int, heads: int = 32, size: int = 128) -> Arguments:
    """Qwen3-Next's sizes: 16 key heads, a decay a head."""
    return {
        **{name: _normal(device, tokens, heads, size) for name in ("out", "value")},
        **{name: _normal(device, tokens, heads // 2, size) for name in ("query", "key")},
        "decay": -torch.rand(tokens, heads, 1, device=device),
        "beta": torch.rand(tokens, heads, device=device).to(torch.bfloat16),
        "state": _normal(device, sequences, heads, size, size),
        "scale": size**-0.5,
        "normalize": True,
    }


def _linear(device: str, sequences: int, tokens: int, heads: int = 64, size: int = 96) -> Arguments:
    """MiniMax-01's heads, of 96 elements."""
    return {
        **{name: _normal(device, tokens, heads, size, scale=0.5) for name in ("out", "query", "key", "value")},
        "decay": -torch.rand(heads, device=device),
        "state": _normal(device, sequences, heads, size, size),
        "scale": size**-0.5,
    }


_ELEMENTS: list[Config] = [
    {"elements": elements, "warps": warps}
    for elements, warps in ((1024, 1), (2048, 1), (2048, 2), (4096, 2), (4096, 4), (8192, 4), (16384, 4), (16384, 8))
]
_CHUNKS: list[Config] = [
    {"chunk": chunk, "columns": columns, "warps": warps}
    for chunk, columns, warps in (
        (16, 16, 1), (16, 32, 2), (16, 32, 4), (16, 64, 2), (16, 64, 4), (16, 128, 4), (16, 128, 8), (32, 64, 4),
        (32, 64, 8), (32, 128, 8),
    )
]  # fmt: skip
_CHUNKED = frozenset(("mamba2_scan", "gated_delta_rule", "linear_attention"))  # prompts are products of matrices
_TILES: list[Config] = [
    {"rows": rows, "block": block, "warps": warps}
    for rows, block, warps in ((16, 128, 4), (8, 256, 4), (16, 256, 4), (32, 256, 4), (16, 512, 8), (32, 128, 4))
]
FORMS: dict[str, tuple[Callable[..., Arguments], list[Config]]] = {
    "short_convolution": (_short_convolution, _TILES),
    "mamba1_scan": (_mamba1, _ELEMENTS),
    "mamba2_scan": (_mamba2, _ELEMENTS),
    "gated_delta_rule": (_delta, _ELEMENTS),
    "linear_attention": (_linear, _ELEMENTS),
}


def compilations(only: str = "") -> Iterator[Callable[[], None]]:
    """What compiles every kernel of those trials, on tensors of the host."""
    for operator, (_, candidates) in FORMS.items():
        if wanted(operator, only):
            for length in (1, 4):
                table, configs = _tuned(operator, length, candidates)
                yield from (partial(_compile, operator, table, config, length) for config in configs)


def _tuned(operator: str, length: int, candidates: list[Config]) -> tuple[str, list[Config]]:
    """What is tuned for sequences of a length: the name in a tuning table, and its candidates."""
    return (f"{operator}_chunks", _CHUNKS) if length > 1 and operator in _CHUNKED else (operator, candidates)


def _compile(operator: str, table: str, config: Config, length: int) -> None:
    make, _ = FORMS[operator]
    with forced(table, config):
        launcher(operator)(**make("cpu", 4, 4 * length), **batch_of("cpu", 4, length))


def state_trials(only: str = "") -> Iterator[Trial]:
    """Every operator whose name has one of `only` in it, on both batches."""
    for operator, (make, candidates) in FORMS.items():
        if not wanted(operator, only):
            continue
        for sequences, length in BATCHES:
            arguments = make("cuda", sequences, sequences * length) | batch_of("cuda", sequences, length)
            contract = registry.contract(operator)
            rows = {"rows": sequences * length, "size": arguments["out"][0].numel()}
            table, configs = _tuned(operator, length, candidates)
            if operator in ("gated_delta_rule", "linear_attention"):
                rows["size"] = arguments["key"].shape[2]
            elif table != operator:
                rows["size"] = arguments["b"].shape[2]
            moved = sum(_bytes(value) for value in arguments.values()) + _bytes(arguments["state"])
            label = f"{sequences} x {length} tokens"
            assert "state" in contract.changed
            trial = trial_of(operator, label, arguments, moved, rows, configs, [])
            if table != operator:
                trial.peers += state_peers.of_prompts(operator, trial.ours, arguments)
            yield replace(trial, operator=table)


def _bytes(value: object) -> int:
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0
