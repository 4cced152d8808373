"""References and answers for the comparison's tests: Hypothesis strategies, and hand-made ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from kunport.validation.comparison import Expected, Observed
from kunport.validation.comparison.recordings import Floats, Ints


def log_softmax(logits: npt.NDArray[np.float64]) -> Floats:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return (shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))).astype(np.float32)


def reference(seed: int, prompt: int, tokens: int, vocabulary: int) -> Expected:
    """A reference with random log-probabilities, spread widely enough that no two tokens tie."""
    random = np.random.default_rng(seed)
    values = log_softmax(random.permuted(np.tile(np.arange(vocabulary) * 0.5, (prompt - 1 + tokens, 1)), axis=1))
    return Expected(values[: prompt - 1], values[prompt - 1 :], values[prompt - 1 :].argmax(axis=1))


def answer(expected: Expected, prompt_tokens: list[int] | None = None, top: int | None = None) -> Observed:
    """What an engine that agrees says: at each position the actual token, then the most likely, as vLLM does."""
    actual = np.array(prompt_tokens if prompt_tokens is not None else [0] * len(expected.prompt), dtype=np.int64)
    prompt_ids, prompt = _listed(expected.prompt, actual, top)
    step_ids, steps = _listed(expected.steps, expected.tokens, top)
    return Observed(prompt_ids, prompt, step_ids, steps, expected.tokens.copy(), expected.tokens.copy())


def _listed(values: Floats, actual: Ints, top: int | None) -> tuple[Ints, Floats]:
    order = np.argsort(-values, axis=1)[:, : values.shape[1] if top is None else top]
    ids = np.concatenate([actual[:, None], order], axis=1)
    return ids, np.take_along_axis(values, ids, axis=1)


@st.composite
def references(draw: st.DrawFn) -> Expected:
    prompt, tokens, vocabulary = (draw(st.integers(*limits)) for limits in ((1, 6), (1, 5), (2, 12)))
    return reference(draw(st.integers(0, 2**16)), prompt, tokens, vocabulary)
