"""Trials of paged attention: 32 query and 8 key-value heads of 128 in bfloat16, pages in random order."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from itertools import product
from typing import Any

import torch

from kunport_runtime.bench.attention import Batch, expected
from kunport_runtime.bench.peers import vllm_attention
from kunport_runtime.bench.rounds import copy_of
from kunport_runtime.bench.trial import Contender, Trial, relative_error, wanted
from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.paged_arguments import PagedArguments
from kunport_runtime.providers.triton.paged_attention import paged_attention
from kunport_runtime.providers.triton.paged_decode import decode
from kunport_runtime.providers.triton.paged_prefill import prefill

COPIED = 1 << 32  # bytes of the copy that decode is compared with: far more than any cache holds


def _ragged(count: int, least: int, most: int) -> list[int]:
    numbers = random.Random(0)
    return [numbers.randint(least, most) for _ in range(count)]


DECODE = {  # label -> lengths, and into how many parts to split
    "64 x 2,048": ([2048] * 64, (1, 2)),
    "256 x 2,048": ([2048] * 256, (1, 2)),
    "16 x 16,384": ([16384] * 16, (2, 4, 8)),
    "4 x 65,536": ([65536] * 4, (8, 16, 32)),
    "256 x 64..4,096": (_ragged(256, 64, 4096), (1, 2, 4)),
}
PREFILL = {  # label -> queries and keys
    "1 x 8,192": [(8192, 8192)],
    "8 x 2,048": [(2048, 2048)] * 8,
    "4 x 1,024 on 8,192": [(1024, 9216)] * 4,
    "16 x 64..4,096": [(length, length) for length in _ragged(16, 64, 4096)],
}

VARIANTS: dict[str, dict[str, Any]] = {  # what differs from a plain batch of heads of 128 in bfloat16
    "plain": {},
    "window of 1,024": {"window": 1024},
    "soft cap": {"softcap": 30.0},
    "sinks": {"sinks": True},
    "ALiBi": {"alibi": True},
    "fp8": {"cache_dtype": torch.float8_e4m3fn},
    "heads of 64": {"size": 64, "value_size": 64},
}

# (block, warps, stages) and (rows, block, warps, stages, descriptors, registers), by page
DECODE_TILES = [(32, 1, 5), (32, 1, 6), (32, 2, 5), (64, 2, 3), (64, 2, 4)]
MORE_DECODE_TILES = [
    (32, 1, 3),
    (64, 1, 2),
    (64, 1, 3),
    (64, 1, 4),
    (128, 2, 2),
    (128, 2, 3),
    (16, 1, 6),
]  # of variants
PREFILL_TILES = {
    16: [
        (128, 64, 8, 3, False, 128),
        (128, 64, 8, 4, False, 128),
        (128, 64, 8, 4, False, 0),
        (128, 64, 8, 5, False, 0),
        (128, 128, 8, 5, False, 0),
        (64, 64, 4, 4, False, 0),
    ],
    64: [
        (64, 64, 4, 4, True, 0),
        (64, 64, 4, 5, True, 0),
        (128, 64, 8, 4, True, 128),
        (128, 64, 8, 5, True, 0),
        (128, 64, 8, 4, False, 0),
    ],
    128: [
        (128, 128, 8, 4, True, 0),
        (128, 128, 8, 5, True, 0),
        (128, 64, 8, 4, True, 128),
        (64, 128, 4, 3, True, 0),
        (128, 128, 8, 5, False, 0),
    ],
}


def decode_configs(
    programs: int,
    parts: Sequence[int],
    tiles: Sequence[tuple[int, int, int]] = DECODE_TILES,
) -> list[tuning.Config]:
    """Every tile with every number of parts; `programs`: of a whole sequence each."""
    return [
        {"block": block, "warps": warps, "stages": stages, "programs": programs * split, "part": 256}
        for (block, warps, stages), split in product(tiles, parts)
    ]


def prefill_configs(page: int) -> list[tuning.Config]:
    """Every tile in both orders."""
    return [
        {
            "rows": rows, "block": block, "warps": warps, "stages": stages,
            "descriptors": descriptors, "registers": registers, "order": order,
        }
        for (rows, block, warps, stages, descriptors, registers), order in product(PREFILL_TILES[page], (0, 1))
    ]  # fmt: skip


def compilations() -> Iterator[Callable[[], None]]:
    """What compiles every kernel of the trials, but for ragged prefill's, on small tensors of the host."""
    for page in (16, 64):
        for split in (1, 2, 4, 8, 16, 32):
            for config in decode_configs(2 * 8, (split,)):
                batch = Batch([(1, 256 * split)] * 2, page=page)
                yield partial(_compile, decode, "paged_decode", batch, config)
    for page in PREFILL_TILES:
        for config in prefill_configs(page):
            batch = Batch([(64, 64)] * 2, page=page)
            yield partial(_compile, prefill, "paged_prefill", batch, config)


def _compile(launch: Callable[[PagedArguments], None], operator: str, batch: Batch, config: tuning.Config) -> None:
    with tuning.forced(operator, config):
        launch(batch.arguments("cpu", 0))


def decode_trials() -> Iterator[Trial]:
    """Decode at pages of 16 and 64, against a copy."""
    copy = copy_of(COPIED)
    for label, (lengths, parts) in DECODE.items():
        for page in (16, 64):
            batch = Batch([(1, length) for length in lengths], page=page)
            arguments = batch.arguments("cuda", random.randrange(1 << 30))
            programs = len(lengths) * batch.key_heads
            yield _trial(
                "paged_decode", f"{label}, page {page}", batch, arguments,
                {"programs": programs, "keys": max(lengths), "page": page, "size": 128},
                partial(decode, arguments),
                decode_configs(programs, parts), [0, len(lengths) // 2, len(lengths) - 1],
                [copy, *vllm_attention(arguments)],
            )  # fmt: skip


def prefill_trials(pages: Sequence[int] = (16, 64, 128)) -> Iterator[Trial]:
    """Prefill, against cuDNN on contiguous keys where the sequences are equal and have no keys before."""
    for label, lengths in PREFILL.items():
        queries, keys = lengths[0]
        equal = all(each == (keys, keys) for each in lengths)
        peers = [cudnn(len(lengths), queries)] if equal else []
        for page in pages:
            batch = Batch(lengths, page=page)
            arguments = batch.arguments("cuda", random.randrange(1 << 30))
            tokens = int(arguments.query_start_loc[-1])
            sample = sorted({0, 1, tokens - 1, *(random.randrange(tokens) for _ in range(20))})
            yield _trial(
                "paged_prefill", f"{label}, page {page}", batch, arguments,
                {"page": page, "queries": arguments.max_query_len, "keys": arguments.max_seq_len, "size": 128},
                partial(prefill, arguments), prefill_configs(page), sample, [*peers, *vllm_attention(arguments)],
            )  # fmt: skip


def variant_trials(only: str = "") -> Iterator[Trial]:
    """Each variant of the contract beside the plain form: of the same lengths, by the bytes or operations that it has.

    The last is what a small model decodes: 256 short sequences with heads of 64.
    """
    copy = copy_of(COPIED)
    short = {"size": 64, "value_size": 64}
    for label, options in VARIANTS.items():
        if not wanted(label, only):
            continue
        yield _decode_variant(label, [2048] * 256, options, copy)
        for page in (16, 128):
            batch = Batch([(2048, 2048)] * 8, page=page, **options)
            arguments = batch.arguments("cuda", random.randrange(1 << 30))
            yield _trial(
                "paged_prefill", f"8 x 2,048, page {page}, {label}", batch, arguments,
                {"page": page, "queries": 2048, "keys": 2048, "size": batch.size},
                partial(prefill, arguments), prefill_configs(page), sorted(random.sample(range(8 * 2048), 20)), [],
            )  # fmt: skip
    if wanted("heads of 64, short", only):
        yield _decode_variant("heads of 64, short", [320] * 256, short, copy)


MIXED = {  # label -> queries and keys: what prefill's kernel takes, and what decode's does
    "2 x 1,024 on 4,096 and 126 decodes of 2,048": ([(1024, 5120)] * 2, [(1, 2048)] * 126),
    "8 x 256 and 248 decodes of 512": ([(256, 256)] * 8, [(1, 512)] * 248),
}


def mixed_trials() -> Iterator[Trial]:
    """Batches of prefills and decodes in one call, beside the two in a call each, and vLLM's kernel."""
    for label, (long, single) in MIXED.items():
        batch = Batch([*single, *long], page=16)
        arguments = batch.arguments("cuda", random.randrange(1 << 30))
        parts = [Batch(each, page=16).arguments("cuda", random.randrange(1 << 30)) for each in (single, long)]
        apart = Contender("apart", partial(_apart, *parts))
        tokens = int(arguments.query_start_loc[-1])
        given = {field.name: getattr(arguments, field.name) for field in fields(arguments)}
        yield _trial(
            "paged_mixed", f"{label}, page 16", batch, arguments, {}, partial(_mixed, given), [{}],
            sorted({0, 1, tokens - 1, *random.sample(range(tokens), 20)}), [apart, *vllm_attention(arguments)],
        )  # fmt: skip


def _apart(single: PagedArguments, long: PagedArguments) -> None:
    decode(single)
    prefill(long)


def _mixed(given: dict[str, Any]) -> None:
    paged_attention(**given)


def _decode_variant(label: str, lengths: list[int], options: dict[str, Any], copy: Contender) -> Trial:
    batch = Batch([(1, length) for length in lengths], page=16, **options)
    arguments = batch.arguments("cuda", random.randrange(1 << 30))
    programs = len(lengths) * batch.key_heads
    return _trial(
        "paged_decode", f"{len(lengths)} x {lengths[0]:,}, page 16, {label}", batch, arguments,
        {"programs": programs, "keys": lengths[0], "page": 16, "size": batch.size}, partial(decode, arguments),
        decode_configs(programs, (1,), DECODE_TILES + MORE_DECODE_TILES),
        [0, len(lengths) // 2, len(lengths) - 1], [copy],
    )  # fmt: skip


def variant_compilations(only: str = "") -> Iterator[Callable[[], None]]:
    """What compiles the kernels of those trials."""
    for label, options in VARIANTS.items():
        if not wanted(label, only):
            continue
        for config in decode_configs(2 * 8, (1,), DECODE_TILES + MORE_DECODE_TILES):
            yield partial(_compile, decode, "paged_decode", Batch([(1, 256)] * 2, page=16, **options), config)
        for page in (16, 128):
            for config in prefill_configs(page):
                yield partial(_compile, prefill, "paged_prefill", Batch([(64, 64)] * 2, page=page, **options), config)


def _trial(
    operator: str,
    label: str,
    batch: Batch,
    arguments: PagedArguments,
    shape: dict[str, int],
    launch: Callable[[], None],
    candidates: list[tuning.Config],
    sample: list[int],
    peers: list[Contender],
) -> Trial:
    right = expected(arguments, sample)

    def error() -> float:
        if not bool(arguments.out.isfinite().all()):
            return float("nan")
        return relative_error(arguments.out[sample], right)

    bound_by_bytes = operator == "paged_decode"
    return Trial(
        operator, label, batch.cache_dtype or batch.dtype, shape,
        batch.bytes() if bound_by_bytes else batch.operations(), "bytes" if bound_by_bytes else "operations",
        launch, candidates, lambda: arguments.out.fill_(float("nan")), error, peers=peers,
    )  # fmt: skip


def cudnn(sequences: int, length: int) -> Contender:
    """Causal attention by cuDNN of as many equal sequences, keys and values contiguous."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    shapes = ((sequences, heads, length, 128) for heads in (32, 8, 8))
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)

    def launch() -> None:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    return Contender("cuDNN", launch)
