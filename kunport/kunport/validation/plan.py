"""What a validation will run: checked, and the same for reference and engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kunport_model_adapters.discovery import Adapter

from kunport.errors import KunportError
from kunport.validation.adapter import choose_adapter
from kunport.validation.checkpoint import Checkpoint, read_checkpoint
from kunport.validation.own_code import runs_own_code
from kunport.validation.prompts import LENGTHS, ragged_lengths, random_prompts, special_tokens, text_prompts

_WHOLE_VOCABULARY = 4096  # entries; the engine hands log-probabilities over as Python lists, slow for many
DTYPES = ("float32", "bfloat16", "float16")
_TOP = 20  # how many of a larger vocabulary: what vLLM itself allows by default
_PAGE = 32  # tokens; the CPU's default of 128 would hold most requests in one page, and page tables would go unproven


@dataclass(frozen=True, slots=True)
class Plan:
    """The requests and the engine's settings.

    Attributes:
        adapter: None for vLLM's own choice of class.
        prompts: token ids.
        prompt_kind: where they are from: ``text``, ``random`` or ``given``.
        tokens: to generate for each prompt.
        batch_sizes: ascending; a batch of n runs the first n prompts.
        top: log-probabilities compared at a position, None for the whole vocabulary.
        own_code: reference and engine run the checkpoint's own code.
    """

    adapter: Adapter | None
    checkpoint: Checkpoint
    prompts: list[list[int]]
    prompt_kind: str
    tokens: int
    batch_sizes: tuple[int, ...]
    dtype: str
    seed: int
    top: int | None
    own_code: bool

    @property
    def longest(self) -> int:
        """Tokens of the longest request, those to generate included."""
        return max(map(len, self.prompts)) + self.tokens

    def job(self, output: Path) -> dict[str, Any]:
        """What both processes are told."""
        folder = str(self.checkpoint.folder.resolve())
        return {
            "checkpoint": folder,
            "trust_remote_code": self.own_code,
            "prompts": self.prompts,
            "tokens": self.tokens,
            "output": str(output),
        }

    def engine_job(self, output: Path) -> dict[str, Any]:
        return self.job(output) | {
            "batch_sizes": self.batch_sizes,
            "dtype": self.dtype,
            "seed": self.seed,
            "top": -1 if self.top is None else self.top,
            "context": self.longest,
            "kv_cache_bytes": self.checkpoint.cache_bytes(self.longest * max(self.batch_sizes)),
            "page": _PAGE,
        }


def make_plan(
    adapter: Path | None,
    checkpoint: Path,
    *,
    batch_sizes: Sequence[int],
    dtype: str,
    prompts: Sequence[Sequence[int]] | None,
    seed: int,
    tokens: int,
    trust_remote_code: bool,
    lengths: Sequence[int] = LENGTHS,
) -> Plan:
    """Check the call and choose the requests, in these ``lengths`` (tokens) where none are given.

    Raises:
        KunportError: what was asked for cannot be run.
    """
    if dtype not in DTYPES:
        raise KunportError(f"Validation in {dtype} is not there.", f"Use {', '.join(DTYPES)}.")
    if not batch_sizes or min(batch_sizes) < 1:
        raise KunportError(f"Batch sizes must be positive, not {list(batch_sizes)}.", "Give sizes such as 1 2 4 8.")
    if tokens < 1:
        raise KunportError(f"{tokens} tokens cannot be generated.", "Generate at least one.")
    source = read_checkpoint(checkpoint)
    own_code = runs_own_code(checkpoint, trusted=trust_remote_code)
    chosen = None if adapter is None else choose_adapter(adapter, source.architecture)
    count = max(batch_sizes)
    if prompts is None:
        requests, kind = _own_prompts(source, count, tokens, seed, lengths)
    else:
        kind = "given"
        requests = [list(prompt) for prompt in prompts[:count]]
        _check_prompts(source, requests, count, tokens)
    vocabulary = source.config.get("vocab_size")
    whole = isinstance(vocabulary, int) and vocabulary <= _WHOLE_VOCABULARY
    sizes = tuple(sorted(set(batch_sizes)))
    return Plan(chosen, source, requests, kind, tokens, sizes, dtype, seed, None if whole else _TOP, own_code)


def _own_prompts(
    source: Checkpoint, count: int, tokens: int, seed: int, wanted: Sequence[int]
) -> tuple[list[list[int]], str]:
    """Text where the checkpoint has a tokenizer that fits it, else random ids; and which of them."""
    try:
        lengths = ragged_lengths(count, source.context, tokens, wanted)
        tokenizer = source.folder / "tokenizer.json"
        prompts = text_prompts(lengths, tokenizer, seed) if tokenizer.is_file() else None
        if prompts is not None and all(token < source.vocabulary for prompt in prompts for token in prompt):
            return prompts, "text"
        return random_prompts(lengths, source.vocabulary, seed, special_tokens(source.config)), "random"
    except ValueError as error:
        raise KunportError(f"No prompt fits {source.folder}: {error}.", "Generate fewer tokens.") from None


def _check_prompts(source: Checkpoint, prompts: list[list[int]], count: int, tokens: int) -> None:
    if len(prompts) < count or not all(prompts):
        raise KunportError(
            f"A batch of {count} needs as many prompts of at least one token; {len(prompts)} were given.",
            "Give more prompts or smaller batch sizes.",
        )
    longest = max(map(len, prompts)) + tokens
    if source.context is not None and longest > source.context:
        raise KunportError(
            f"A request of {longest} tokens is longer than the model's context of {source.context}.",
            "Give shorter prompts or generate fewer tokens.",
        )
    ids = [token for prompt in prompts for token in prompt]
    if min(ids) < 0 or max(ids) >= source.vocabulary:
        raise KunportError(
            f"A prompt has token {max(ids)} of a vocabulary of {source.vocabulary}.", "Give ids below that."
        )
