"""What is varied, one thing a cell, and how it is known that the engine really did it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Lengths of the prompts in tokens, for pages of 32: three that outgrow their page while they are answered, three that
# fill at least one (which can be found again), and two that are short.
LENGTHS = (30, 30, 30, 45, 7, 61, 1, 64)
TOKENS = 8
_USABLE_PAGES = 5  # the first four prompts fill them, the longest request needs three
_PIECE = 24  # tokens of a step, at most: less than the longest prompt


@dataclass(frozen=True, slots=True)
class Cell:
    """One thing that is varied.

    Attributes:
        name: what the table calls it.
        ask: how the requests are posed: see `kunport.validation.invariance.engine`.
        settings: arguments of vLLM's `LLM` that differ.
        environment: variables that differ, which a fresh process then gets.
        proof: which fact of the engine must not be zero, or the cell proves nothing: ``cached_tokens``,
            ``preemptions``, ``provider_calls``, "" where the settings alone are proof.
        missing: what it means where it is zero.
        paged: the engine gets `_USABLE_PAGES` pages for each group of its KV cache, in ``num_gpu_blocks_override``.
    """

    name: str
    ask: str = "together"
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    proof: str = ""
    missing: str = ""
    paged: bool = False

    @property
    def own_engine(self) -> bool:
        """Whether it needs an engine beside the one whose answers are kept."""
        return bool(self.settings or self.environment or self.paged)

    def arguments(self, groups: int) -> dict[str, Any]:
        """The engine's arguments that differ, where its KV cache has so many groups."""
        pages = (
            {"num_gpu_blocks_override": 1 + _USABLE_PAGES * groups} if self.paged else {}
        )  # one page is the null page
        return {**self.settings, **pages}


def _provider(name: str, **environment: str) -> Cell:
    return Cell(
        f"provider {name}",
        environment=environment,
        proof="provider_calls",
        missing=f"{name} ran no operator of this model",
    )


CELLS = (
    Cell("batch of one", ask="alone"),
    Cell("reversed order", ask="reversed"),
    Cell("decode as prefill", ask="prefill"),
    Cell("chunked prefill", settings={"enable_chunked_prefill": True, "max_num_batched_tokens": _PIECE}),
    Cell(
        "prefix cache hit",
        ask="again",
        settings={"enable_prefix_caching": True},
        proof="cached_tokens",
        missing="the engine caches no prefix of this model",
    ),
    Cell("preemption", paged=True, proof="preemptions", missing="nothing was preempted: what it keeps does not grow"),
    Cell("page of 64", settings={"block_size": 64}),
    Cell("page of 128", settings={"block_size": 128}),
    Cell("tensor parallel 2", settings={"tensor_parallel_size": 2}),
    Cell("compiled graph", settings={"enforce_eager": False}, environment={"TORCHDYNAMO_DISABLE": "0"}),
    _provider("torch", KUNPORT_DEVICE="cpu", KUNPORT_OPS_POLICY='order = ["torch"]'),
    _provider("triton", KUNPORT_DEVICE="cpu", KUNPORT_OPS_POLICY='order = ["triton", "torch"]', TRITON_INTERPRET="1"),
    _provider("vendor", KUNPORT_DEVICE="kunlun", KUNPORT_SIMULATOR="1"),
)
