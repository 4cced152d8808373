"""Trials of latent attention, absorbed: 128 heads over rows of 512 latent and 64 rotated elements, pages of 64."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from kunport_runtime.bench.row_trials import launcher
from kunport_runtime.bench.trial import Trial, relative_error, wanted
from kunport_runtime.operators.registry import registry
from kunport_runtime.providers.triton.tuning import Config, forced

LATENT, ROPE, PAGE, HEADS = 512, 64, 64, 128
BATCHES = {  # label -> queries and keys
    "decode, 64 x 4,096": [(1, 4096)] * 64,
    "decode, 4 x 32,768": [(1, 32768)] * 4,
    "prefill, 2 x 1,024": [(1024, 1024)] * 2,
}
_TILES: list[Config] = [
    {"rows": rows, "block": block, "warps": warps, "stages": stages}
    for rows, block, warps, stages in (
        (16, 32, 4, 2), (16, 64, 4, 2), (32, 32, 4, 2), (32, 64, 8, 2), (64, 32, 4, 2), (64, 32, 8, 2), (64, 64, 8, 2),
        (128, 32, 8, 2), (64, 64, 4, 1),
    )
]  # fmt: skip


def _arguments(device: str, lengths: list[tuple[int, int]], heads: int = HEADS) -> dict[str, Any]:
    pages = [-(-keys // PAGE) for _, keys in lengths]
    tables = torch.zeros(len(lengths), max(pages), dtype=torch.int32, device=device)
    order = torch.randperm(sum(pages), device=device).to(torch.int32)
    for row, (count, begin) in enumerate(zip(pages, torch.tensor([0, *pages]).cumsum(0).tolist(), strict=False)):
        tables[row, :count] = order[begin : begin + count]
    queries = torch.tensor([0] + [count for count, _ in lengths]).cumsum(0)
    tokens = int(queries[-1])

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=device).to(torch.bfloat16)

    return {
        "out": normal(tokens, heads, LATENT),
        "query_latent": normal(tokens, heads, LATENT),
        "query_rope": normal(tokens, heads, ROPE),
        "cache": normal(sum(pages), PAGE, LATENT + ROPE),
        "block_tables": tables,
        "query_start_loc": queries.to(device, torch.int32),
        "seq_lens": torch.tensor([keys for _, keys in lengths], dtype=torch.int32, device=device),
        "max_query_len": max(count for count, _ in lengths),
        "max_seq_len": max(keys for _, keys in lengths),
        "scale": (LATENT + ROPE) ** -0.5,
    }


def compilations(only: str = "") -> Iterator[Callable[[], None]]:
    """What compiles the kernel with every tile, on tensors of the host."""
    if wanted("mla_attention", only):
        yield from (partial(_compile, config) for config in _TILES)


def _compile(config: Config) -> None:
    with forced("mla_attention", config):
        launcher("mla_attention")(**_arguments("cpu", [(1, 64)] * 2))


def latent_trials(only: str = "") -> Iterator[Trial]:
    """Each batch; operations are those of the two products, for pairs of a query and a key that it sees."""
    if wanted("mla_attention", only):
        yield from (_trial(label, lengths) for label, lengths in BATCHES.items())


def _trial(label: str, lengths: list[tuple[int, int]]) -> Trial:
    arguments = _arguments("cuda", lengths)
    out, launch = arguments["out"], launcher("mla_attention")
    contract = registry.contract("mla_attention")
    expected = torch.empty_like(out, dtype=torch.float32)
    wide = {
        name: value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for name, value in arguments.items()
    }
    contract.reference(**contract.defaults | wide | {"out": expected})
    pairs = sum(queries * (keys - queries) + queries * (queries + 1) // 2 for queries, keys in lengths)
    shape = {"rows": out.shape[0] * HEADS // len(lengths), "keys": arguments["max_seq_len"], "page": PAGE}
    return Trial(
        "mla_attention", label, torch.bfloat16, shape, 2 * pairs * HEADS * (2 * LATENT + ROPE), "operations",
        lambda: launch(**arguments), _TILES, lambda: out.fill_(float("nan")), lambda: relative_error(out, expected),
    )  # fmt: skip
