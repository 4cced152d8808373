"""Trials of what works row by row and is bound by bytes, against a copy of as many bytes and torch's own."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch

from kunport_runtime.bench import peers
from kunport_runtime.bench.rounds import copy_of
from kunport_runtime.bench.trial import Contender, Trial, relative_error, wanted
from kunport_runtime.operators.registry import registry
from kunport_runtime.providers.triton.tuning import Config, forced

SHAPES = ((8192, 4096), (16384, 8192), (64, 4096))
ROUTED = ((4096, 128), (8192, 256), (64, 128))  # tokens and experts
Arguments = dict[str, Any]


def _rms(rows: int, size: int, device: str, cast: str) -> tuple[Arguments, int]:
    x, weight = _normal(device, rows, size), _normal(device, size)
    arguments = {"out": torch.empty_like(x), "x": x, "weight": weight, "epsilon": 1e-6, "offset": 0.0, "cast": cast}
    return arguments, 4 * rows * size


def _add_rms(rows: int, size: int, device: str) -> tuple[Arguments, int]:
    arguments, _ = _rms(rows, size, device, "before_weight")
    x = arguments["x"]
    return {**arguments, "residual": _normal(device, rows, size), "residual_out": torch.empty_like(x)}, 8 * rows * size


def _layer(rows: int, size: int, device: str) -> tuple[Arguments, int]:
    x = _normal(device, rows, size)
    weights = {"weight": _normal(device, size), "bias": _normal(device, size)}
    return {"out": torch.empty_like(x), "x": x, "epsilon": 1e-6, **weights}, 4 * rows * size


def _gated_norm(rows: int, size: int, device: str) -> tuple[Arguments, int]:
    x = _normal(device, rows, size)
    options = {"epsilon": 1e-6, "group_size": 0, "order": "norm_first", "activation": "silu"}
    tensors = {"out": torch.empty_like(x), "x": x, "gate": _normal(device, rows, size), "weight": _normal(device, size)}
    return tensors | options, 6 * rows * size


def _activation(rows: int, size: int, device: str, packing: str) -> tuple[Arguments, int]:
    x = _normal(device, rows, 2 * size)
    options = {"activation": "silu", "packing": packing, "alpha": 1.0, "limit": 0.0, "up_offset": 0.0}
    return {"out": torch.empty_like(x[:, :size]).contiguous(), "x": x, **options}, 6 * rows * size


def _rope(rows: int, size: int, device: str, pairing: str) -> tuple[Arguments, int]:
    """A row is a token with size / 128 query heads and a quarter as many key heads; angles as the engine gives them."""
    heads = size // 128
    cos_sin = torch.rand(4096, 128, device=device).to(torch.bfloat16)
    arguments = {
        "query": _normal(device, rows, heads, 128),
        "key": _normal(device, rows, heads // 4, 128),
        "positions": torch.arange(rows, device=device) % 4096,
        "cos_sin_cache": cos_sin,
        "pairing": pairing,
    }
    return arguments, 4 * rows * (size + size // 4)


def _qk_norm_rope(rows: int, size: int, device: str) -> tuple[Arguments, int]:
    arguments, moved = _rope(rows, size, device, "half")
    weights = {"query_weight": _normal(device, 128), "key_weight": _normal(device, 128)}
    options = {"epsilon": 1e-6, "offset": 0.0, "cast": "before_weight", "span": "head"}
    return arguments | weights | options, moved


def _qk_norm_rope_cache_write(rows: int, size: int, device: str) -> tuple[Arguments, int]:
    arguments, moved = _qk_norm_rope(rows, size, device)
    heads = size // 128 // 4
    cache = torch.zeros(2, rows // 16 + 1, 16, heads, 128, device=device, dtype=torch.bfloat16)
    more = {
        "value": _normal(device, rows, heads, 128),
        "key_cache": cache[0],
        "value_cache": cache[1],
        "slot_mapping": torch.randperm(rows, device=device),
        "key_scale": 1.0,
        "value_scale": 1.0,
    }
    return arguments | more, moved + 2 * rows * (size // 4) * 3


def _routing(rows: int, experts: int, device: str) -> tuple[Arguments, int]:
    """DeepSeek-V3's routing to 8 experts, in groups where there are many."""
    groups = 8 if experts >= 256 else 1
    tensors = {
        "weights": torch.empty(rows, 8, device=device),
        "ids": torch.empty(rows, 8, device=device, dtype=torch.int32),
        "logits": (torch.rand(rows, experts, device=device).argsort(-1) * (8 / experts) - 4).to(torch.bfloat16),
        "correction_bias": torch.rand(experts, device=device).argsort() * 1e-4,
    }
    options = {"scoring": "sigmoid", "renormalize": True, "groups": groups, "top_groups": groups // 2 or 1}
    more = {"group_score": "top_two_sum" if groups > 1 else "maximum", "scale": 2.5}
    return tensors | options | more, rows * (2 * experts + 8 * 8)


def _normal(device: str, *shape: int) -> torch.Tensor:
    return torch.randn(shape, device=device, dtype=torch.bfloat16)


_ROWS: list[Config] = [
    {"elements": elements, "warps": warps} for elements, warps in product((1, 8192, 16384), (2, 4, 8, 16))
]
_BLOCKS: list[Config] = [
    {"block": block, "warps": warps} for block, warps in ((1024, 4), (2048, 4), (2048, 8), (4096, 8), (4096, 16))
]
_SCORES: list[Config] = [
    {"elements": elements, "warps": warps} for elements, warps in product((256, 1024, 2048, 4096), (1, 4))
]
_TOKENS: list[Config] = [{"warps": warps, "parts": parts} for warps, parts in product((1, 2, 4, 8), (1, 2, 4, 8, 16))]

# operator, what is particular, arguments, candidates
FORMS: list[tuple[str, str, Callable[..., tuple[Arguments, int]], dict[str, str], list[Config]]] = [
    ("rms_norm", "before_weight", _rms, {"cast": "before_weight"}, _ROWS),
    ("rms_norm", "after_weight", _rms, {"cast": "after_weight"}, _ROWS),
    ("rms_norm", "none", _rms, {"cast": "none"}, _ROWS),
    ("fused_add_rms_norm", "", _add_rms, {}, _ROWS),
    ("layer_norm", "", _layer, {}, _ROWS),
    ("gated_rms_norm", "", _gated_norm, {}, _ROWS),
    ("gated_activation", "halves", _activation, {"packing": "halves"}, _BLOCKS),
    ("gated_activation", "interleaved", _activation, {"packing": "interleaved"}, _BLOCKS),
    ("rotary_embedding", "half", _rope, {"pairing": "half"}, _TOKENS),
    ("rotary_embedding", "interleaved", _rope, {"pairing": "interleaved"}, _TOKENS),
    ("qk_norm_rope", "", _qk_norm_rope, {}, _TOKENS),
    ("qk_norm_rope_cache_write", "", _qk_norm_rope_cache_write, {}, _TOKENS),
    ("expert_routing", "", _routing, {}, _SCORES),
]


def _shapes(operator: str) -> tuple[tuple[int, int], ...]:
    return ROUTED if operator == "expert_routing" else SHAPES


def compilations(only: str = "") -> Iterator[Callable[[], None]]:
    """What compiles every kernel of those trials, on few rows of the host."""
    for operator, _, make, options, candidates in FORMS:
        if not wanted(operator, only):
            continue
        for size in sorted({size for _, size in _shapes(operator)}):
            for config in candidates:
                yield partial(_compile, operator, make, size, options, config)


def _compile(
    operator: str, make: Callable[..., tuple[Arguments, int]], size: int, options: dict[str, str], config: Config
) -> None:
    arguments, _ = make(64, size, "cpu", **options)
    with forced(operator, config):
        launcher(operator)(**arguments)


def launcher(operator: str) -> Callable[..., None]:
    """Triton's function of an operator."""
    return registry.implementations(operator)["triton"].load()


def row_trials(only: str = "") -> Iterator[Trial]:
    """Every operator whose name has one of `only` in it, on every shape."""
    for operator, form, make, options, candidates in FORMS:
        if not wanted(operator, only):
            continue
        for rows, size in _shapes(operator):
            arguments, moved = make(rows, size, "cuda", **options)
            label = f"{form} {rows:,} x {size:,}".strip()
            shape = {"rows": rows, "experts" if operator == "expert_routing" else "size": size}
            others = peers.of_rows(operator, arguments)
            yield trial_of(operator, label, arguments, moved, shape, candidates, others)


def trial_of(
    operator: str,
    label: str,
    arguments: Arguments,
    moved: int,
    shape: dict[str, int],
    candidates: list[Config],
    others: list[Contender],
) -> Trial:
    """A trial of `moved` bytes that holds what an operator changes against its reference in float64."""
    contract = registry.contract(operator)
    before = {name: arguments[name].clone() for name in contract.changed}
    wide = {
        name: value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for name, value in arguments.items()
    }
    contract.reference(**contract.defaults | wide)
    expected = {name: wide[name].to(torch.float32) for name in contract.changed}
    written = {each.name for each in contract.outputs}
    launch = launcher(operator)

    def reset() -> None:
        for name, value in before.items():
            if name in written:
                arguments[name].fill_(float("nan") if arguments[name].is_floating_point() else -1)
            else:
                arguments[name].copy_(value)

    def error() -> float:
        return max((relative_error(arguments[name], right) for name, right in expected.items()), key=_nan_last)

    return Trial(
        operator, label, torch.bfloat16, shape, moved, "bytes", lambda: launch(**arguments), candidates, reset, error,
        peers=[copy_of(moved), *others],
    )  # fmt: skip


def _nan_last(error: float) -> float:
    return float("inf") if error != error else error
