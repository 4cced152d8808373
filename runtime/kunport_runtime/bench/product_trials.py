"""Trials of matrix products, of experts', of 8-bit ones and of what stands at a model's two ends, against libraries."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from kunport_runtime.bench import product_peers
from kunport_runtime.bench.row_trials import launcher
from kunport_runtime.bench.trial import Trial, relative_error, wanted
from kunport_runtime.operators.registry import registry
from kunport_runtime.providers.triton.tuning import Config, forced

Arguments = dict[str, Any]
_TILE = ("rows", "outputs", "depth", "band", "warps", "stages")


def _tiles(*forms: tuple[int, ...]) -> list[Config]:
    return [dict(zip(_TILE, form, strict=True)) for form in forms]


_WIDE = _tiles(
    (128, 256, 64, 8, 8, 3), (128, 256, 64, 8, 8, 4), (256, 128, 64, 8, 8, 3), (128, 128, 64, 8, 4, 4),
    (128, 128, 64, 8, 8, 4),
)  # fmt: skip
_WIDE_8_BITS = _tiles(
    (128, 256, 128, 8, 8, 3), (128, 256, 128, 8, 8, 4), (256, 128, 128, 8, 8, 3), (128, 256, 64, 8, 8, 4),
    (128, 128, 128, 8, 4, 4), (128, 128, 128, 8, 8, 4), (64, 256, 128, 8, 4, 3),
)  # fmt: skip
_GROUPED_8_BITS = _tiles(
    (128, 128, 128, 8, 8, 4), (128, 128, 128, 8, 8, 3), (256, 128, 128, 8, 16, 3), (128, 64, 128, 8, 4, 4),
    (128, 64, 128, 8, 4, 3),
)  # fmt: skip


def _expert_tiles(*forms: tuple[int, ...]) -> list[Config]:
    """As they are, with short last tiles, and those through descriptors too."""
    how = ({"short": 0, "descriptors": False}, {"short": 64, "descriptors": False}, {"short": 64, "descriptors": True})
    return [{**tile, **more} for more in how for tile in _tiles(*forms)]


_UP = _expert_tiles((128, 128, 64, 8, 8, 3), (128, 128, 64, 8, 8, 4), (128, 128, 128, 8, 8, 2))
_DOWN = _expert_tiles(
    (128, 256, 64, 8, 8, 3), (128, 256, 64, 8, 8, 4), (128, 256, 128, 8, 8, 2), (128, 128, 64, 8, 4, 3)
)
_BLOCKS: list[Config] = [
    {"block": block, "warps": warps} for block, warps in ((1024, 4), (2048, 8), (4096, 8), (8192, 8), (8192, 16))
]
_ROWS: list[Config] = [{"block": block, "warps": warps} for block, warps in ((512, 1), (1024, 4), (2048, 4), (4096, 8))]


@dataclass(frozen=True, slots=True)
class Form:
    """An operator on one shape.

    Attributes:
        operator: its name.
        tuned: the kernel's name in the tuning table.
        label: what is particular, for people.
        make: its arguments on a device, and the bytes or operations.
        shape: of the table.
        candidates: configurations to try.
        dtype: of the table.
        unit: "bytes" or "operations".
        sizes: of `make`.
    """

    operator: str
    tuned: str
    label: str
    make: Callable[..., tuple[Arguments, int]]
    shape: dict[str, int]
    candidates: list[Config]
    dtype: torch.dtype = torch.bfloat16
    unit: str = "operations"
    sizes: dict[str, int] = field(default_factory=dict)


def _normal(device: str, *shape: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(shape, device=device, dtype=torch.bfloat16).mul_(scale)


def _linear(device: str, rows: int, size: int) -> tuple[Arguments, int]:
    tensors = {"x": _normal(device, rows, size), "weight": _normal(device, size, size, scale=size**-0.5)}
    return {"out": torch.empty_like(tensors["x"]), **tensors, "bias": None}, 2 * rows * size * size


def _fp8(device: str, rows: int, size: int, in_group: int, out_group: int) -> tuple[Arguments, int]:
    kind = torch.float8_e4m3fn
    tensors = {
        "out": torch.empty(rows, size, device=device, dtype=torch.bfloat16),
        "x": _normal(device, rows, size).to(kind),
        "weight": _normal(device, size, size).to(kind),
        "x_scale": torch.rand(rows, size // in_group, device=device) + 0.5,
        "weight_scale": (torch.rand(size // out_group, size // in_group, device=device) + 0.5) * size**-0.5,
    }
    return {**tensors, "bias": None, "in_group": in_group, "out_group": out_group}, 2 * rows * size * size


def _int8(device: str, rows: int, size: int) -> tuple[Arguments, int]:
    tensors = {
        "out": torch.empty(rows, size, device=device, dtype=torch.bfloat16),
        "x": torch.randint(-127, 128, (rows, size), device=device, dtype=torch.int8),
        "weight": torch.randint(-127, 128, (size, size), device=device, dtype=torch.int8),
        "x_scale": torch.rand(rows, device=device) * 0.01,
        "weight_scale": torch.rand(size, device=device) * 0.001,
    }
    return {**tensors, "bias": None}, 2 * rows * size * size


def _experts(
    device: str, tokens: int, hidden: int, size: int, experts: int, top_k: int
) -> tuple[Arguments, int]:  # fmt: skip
    """Every expert gets about as many tokens; the choices of a token differ."""
    tensors = {
        "x": _normal(device, tokens, hidden),
        "gate_up_weight": _normal(device, experts, 2 * size, hidden, scale=hidden**-0.5),
        "down_weight": _normal(device, experts, hidden, size, scale=size**-0.5),
        "weights": torch.rand(tokens, top_k, device=device),
        "ids": torch.rand(tokens, experts, device=device).topk(top_k).indices.to(torch.int32),
    }
    arguments = {"out": torch.empty_like(tensors["x"]), **tensors, "gate_up_bias": None, "down_bias": None}
    return arguments, 6 * tokens * top_k * hidden * size


def _sample(device: str, rows: int, vocab: int, greedy: int) -> tuple[Arguments, int]:
    """Logits as a model's, whose best tokens hold most of the weight."""
    tensors = {
        "out": torch.empty(rows, device=device, dtype=torch.int64),
        "logits": _normal(device, rows, vocab, scale=3.0),
        "temperature": torch.full((rows,), 0.0 if greedy else 0.8, device=device),
        "top_k": torch.full((rows,), 0 if greedy else 50, device=device, dtype=torch.int32),
        "top_p": torch.full((rows,), 1.0 if greedy else 0.9, device=device),
        "uniform": torch.rand(rows, device=device),
    }
    return {**tensors, "greedy": bool(greedy)}, 2 * rows * vocab


def _embed(device: str, rows: int, vocab: int, hidden: int) -> tuple[Arguments, int]:
    tensors = {
        "out": torch.empty(rows, hidden, device=device, dtype=torch.bfloat16),
        "ids": torch.randint(vocab, (rows,), device=device),
        "table": _normal(device, vocab, hidden),
    }
    return tensors, 4 * rows * hidden


_EXPERTS = {"tokens": 4096, "hidden": 2048, "size": 768, "experts": 128, "top_k": 8}
_EXPERT_ROWS = _EXPERTS["tokens"] * _EXPERTS["top_k"] // _EXPERTS["experts"]


def _square(
    operator: str, label: str, make: Callable[..., tuple[Arguments, int]], dtype: torch.dtype, **more: int
) -> Form:
    size = 8192
    sizes = {"rows": size, "size": size}
    shape = {"rows": size, "out_size": size, "in_size": size}
    grouped = more.get("in_group", size) < size
    tuned = "fp8_matmul_grouped" if grouped else operator
    candidates = _GROUPED_8_BITS if grouped else _WIDE if dtype == torch.bfloat16 else _WIDE_8_BITS
    return Form(operator, tuned, label, make, shape, candidates, dtype, sizes=sizes | more)


FORMS = [
    Form(
        "fused_experts", "fused_experts_up", "up, 8 of 128, 4,096 x 2,048 x 768", _experts,
        {"rows": _EXPERT_ROWS, "out_size": 768, "in_size": 2048}, _UP, sizes=_EXPERTS,
    ),
    Form(
        "fused_experts", "fused_experts_down", "down, the same", _experts,
        {"rows": _EXPERT_ROWS, "out_size": 2048, "in_size": 768}, _DOWN, sizes=_EXPERTS,
    ),
    _square("fp8_matmul", "8,192^3, a scale a row", _fp8, torch.float8_e4m3fn, in_group=8192, out_group=1),
    _square("fp8_matmul", "8,192^3, blocks of 128", _fp8, torch.float8_e4m3fn, in_group=128, out_group=128),
    _square("int8_matmul", "8,192^3", _int8, torch.int8),
    _square("linear", "8,192^3", _linear, torch.bfloat16),
    *(
        Form(
            "sample", "sample", f"256 x {vocab:,}, {'greedy' if greedy else 'drawn, k 50, p 0.9'}", _sample,
            {"rows": 256, "size": vocab}, _BLOCKS, unit="bytes", sizes={"rows": 256, "vocab": vocab, "greedy": greedy},
        )
        for greedy in (1, 0) for vocab in (32_000, 128_000)
    ),
    *(
        Form(
            "embed_tokens", "embed_tokens", f"256 of {vocab:,} x 4,096", _embed, {"rows": 256, "size": 4096}, _ROWS,
            unit="bytes", sizes={"rows": 256, "vocab": vocab, "hidden": 4096},
        )
        for vocab in (32_000, 128_000)
    ),
]  # fmt: skip


def compilations(only: str = "") -> Iterator[Callable[[], None]]:
    """What compiles every kernel of those trials, on tensors of the host."""
    for number, form in enumerate(FORMS):
        if wanted(form.operator, only):
            yield from (partial(_compile, number, config) for config in form.candidates)


def _compile(number: int, config: Config) -> None:
    """On few rows, outputs and experts: a kernel is the same for many."""
    form = FORMS[number]
    fewer = {"rows": 512, "size": 2048, "tokens": 512, "experts": 16, "vocab": 8192, "in_group": 2048}
    sizes = {name: min(value, fewer.get(name, value)) for name, value in form.sizes.items()}
    arguments, _ = form.make("cpu", **sizes)
    with forced(form.tuned, config):
        launcher(form.operator)(**arguments)


def product_trials(only: str = "") -> Iterator[Trial]:
    """Every form whose operator has one of `only` in its name."""
    for form in FORMS:
        if wanted(form.operator, only):
            yield _trial(form)


def _trial(form: Form) -> Trial:
    arguments, work = form.make("cuda", **form.sizes)
    out = arguments["out"]
    contract, launch = registry.contract(form.operator), launcher(form.operator)
    expected = torch.empty_like(out) if form.operator == "sample" else torch.empty_like(out, dtype=torch.float32)
    contract.reference(**contract.defaults | arguments | {"out": expected})

    def reset() -> None:
        out.fill_(float("nan") if out.is_floating_point() else -1)

    def error() -> float:
        if not out.is_floating_point():
            return float((out != expected).double().mean())
        return relative_error(out, expected)

    return Trial(
        form.tuned, form.label, form.dtype, form.shape, work, form.unit, lambda: launch(**arguments), form.candidates,
        reset, error, limit=1e-2, peers=product_peers.of_products(form.operator, arguments, work),
    )  # fmt: skip
