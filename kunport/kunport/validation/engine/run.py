"""Batches through the engine: with log-probabilities for the comparison, and plain for speed and memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from vllm import LLM, SamplingParams

from kunport.validation.comparison.recordings import Floats, Ints, Observed

if TYPE_CHECKING:
    from vllm.logprobs import FlatLogprobs


def plain(llm: LLM, prompts: Sequence[Sequence[int]], tokens: int) -> tuple[list[list[int]], float]:
    """The greedy tokens of each request, all running at once, and the seconds it took."""
    sampling = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    begin = time.perf_counter()
    outputs = llm.generate([{"prompt_token_ids": list(prompt)} for prompt in prompts], sampling, use_tqdm=False)
    seconds = time.perf_counter() - begin
    return [list(output.outputs[0].token_ids) for output in outputs], seconds


def observe(
    llm: LLM, prompts: Sequence[Sequence[int]], tokens: int, top: int, repeated: Sequence[Sequence[int]]
) -> list[Observed]:
    """The same with log-probabilities: the ``top`` most likely of each position and the actual token's; all for -1.

    ``repeated`` are the tokens that a run without log-probabilities gave.
    """
    sampling = SamplingParams(
        temperature=0.0,
        max_tokens=tokens,
        ignore_eos=True,
        detokenize=False,
        prompt_logprobs=top,
        logprobs=top,
        flat_logprobs=True,
    )
    outputs = llm.generate([{"prompt_token_ids": list(prompt)} for prompt in prompts], sampling, use_tqdm=False)
    answers = []
    for output, again in zip(outputs, repeated, strict=True):
        completion = output.outputs[0]
        prompt_ids, prompt_values = _table(output.prompt_logprobs)
        step_ids, step_values = _table(completion.logprobs)
        generated = np.array(completion.token_ids, dtype=np.int64)
        answer = Observed(prompt_ids, prompt_values, step_ids, step_values, generated, np.array(again, dtype=np.int64))
        answers.append(answer)
    return answers


def _table(flat: FlatLogprobs) -> tuple[Ints, Floats]:
    """Token ids and log-probabilities, ``[positions, K]`` each; a prompt's first position has none and is left out."""
    filled = sum(end > begin for begin, end in zip(flat.start_indices, flat.end_indices, strict=True))
    ids = np.array(flat.token_ids, dtype=np.int64).reshape(filled, -1 if filled else 0)
    return ids, np.array(flat.logprobs, dtype=np.float32).reshape(ids.shape)
