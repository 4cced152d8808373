"""Batches through the engine: with log-probabilities for the comparison, and plain for speed and memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from vllm import LLM, SamplingParams
from vllm.inputs import TokensPrompt

from kunport.validation.comparison.recordings import Floats, Ints, Observed

if TYPE_CHECKING:
    from vllm.logprobs import FlatLogprobs
    from vllm.outputs import RequestOutput


def plain(llm: LLM, prompts: Sequence[Sequence[int]], tokens: int) -> tuple[list[list[int]], float]:
    """The greedy tokens of each request, all running at once, and the seconds it took."""
    sampling = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    begin = time.perf_counter()
    outputs = llm.generate(_requests(prompts), sampling, use_tqdm=False)
    seconds = time.perf_counter() - begin
    return [list(output.outputs[0].token_ids) for output in outputs], seconds


def observe(
    llm: LLM, prompts: Sequence[Sequence[int]], tokens: int, top: int, repeated: Sequence[Sequence[int]]
) -> list[Observed]:
    """The same with log-probabilities: the ``top`` most likely of each position and the actual token's; all for -1.

    ``repeated`` are the tokens that a run without log-probabilities gave.
    """
    outputs = generate(llm, prompts, tokens, top)
    return [observed(output, again) for output, again in zip(outputs, repeated, strict=True)]


def generate(
    llm: LLM, prompts: Sequence[Sequence[int]], tokens: int, top: int, *, of_prompts: bool = True
) -> list[RequestOutput]:
    """Greedy answers with log-probabilities of the generated tokens and, unless they are not wanted, the prompts'."""
    sampling = SamplingParams(
        temperature=0.0,
        max_tokens=tokens,
        ignore_eos=True,
        detokenize=False,
        prompt_logprobs=top if of_prompts else None,
        logprobs=top,
        flat_logprobs=True,
    )
    outputs: list[RequestOutput] = llm.generate(_requests(prompts), sampling, use_tqdm=False)
    return outputs


def observed(output: RequestOutput, repeated: Sequence[int]) -> Observed:
    """An answer as arrays; those of the prompt are empty where it has no log-probabilities."""
    completion = output.outputs[0]
    step_ids, steps = _table(completion.logprobs)
    empty = (step_ids[:0], steps[:0])
    prompt_ids, prompt = _table(output.prompt_logprobs) if output.prompt_logprobs is not None else empty
    tokens, again = (np.array(each, dtype=np.int64) for each in (completion.token_ids, repeated))
    return Observed(prompt_ids, prompt, step_ids, steps, tokens, again)


def _requests(prompts: Sequence[Sequence[int]]) -> list[TokensPrompt]:
    return [TokensPrompt(prompt_token_ids=list(prompt)) for prompt in prompts]


def _table(flat: FlatLogprobs) -> tuple[Ints, Floats]:
    """Token ids and log-probabilities, ``[positions, K]`` each; a prompt's first position has none and is left out."""
    filled = sum(end > begin for begin, end in zip(flat.start_indices, flat.end_indices, strict=True))
    ids = np.array(flat.token_ids, dtype=np.int64).reshape(filled, -1 if filled else 0)
    return ids, np.array(flat.logprobs, dtype=np.float32).reshape(ids.shape)
