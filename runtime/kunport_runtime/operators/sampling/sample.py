"""Chooses a token for each row of logits: temperature, top-k, top-p, and the draw.

    temperature 0: the most probable token, of equals the one with the lower id. Else, on logits / temperature:
    top-k: keep what is at least as probable as the top_k-th (0: all)
    top-p: of what is kept, renormalised, keep a token if all more probable ones together have less than top_p (1: all)
    draw:  the first token, by id, at which the cumulative probability of what is kept exceeds uniform * their sum

Equals are kept or dropped together, so that the result does not depend on an order of equal tokens. The random number
is an argument: the operator is a function, and ranks that are given the same numbers choose the same tokens whatever
the device's generator does. All in float32. Holtzman and others, 2019, https://arxiv.org/abs/1904.09751.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, option, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.numerics import wide
from kunport_runtime.operators.tolerance import Tolerance


def kept_probabilities(
    logits: torch.Tensor, temperature: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    """Probabilities ``[rows, vocab]`` after top-k and top-p, not renormalised; those of dropped tokens are 0.

    ``temperature`` 0 counts as 1.
    """
    vocab = logits.shape[1]
    scaled = wide(logits) / torch.where(temperature == 0, 1.0, temperature).unsqueeze(1)
    if (top_k > 0).any():
        count = torch.where(top_k <= 0, vocab, top_k.clamp(max=vocab)).long()
        least = scaled.sort(-1, descending=True).values.gather(1, count.unsqueeze(1) - 1)
        scaled = scaled.masked_fill(scaled < least, -torch.inf)
    probabilities = scaled.softmax(-1)
    if (top_p >= 1).all():
        return probabilities
    ordered = probabilities.sort(-1, descending=True).values
    before = ordered.cumsum(-1) - ordered
    # Of equals the first in order has only more probable ones before it.
    first = torch.searchsorted(-ordered, -probabilities)
    more_probable = before.gather(1, first.clamp(max=vocab - 1))
    everything = (top_p >= 1).unsqueeze(1)  # where a sum of 1 - 1e-7 must not drop the last token
    return torch.where(everything | (more_probable < top_p.unsqueeze(1)), probabilities, 0.0)


def reference(
    out: torch.Tensor,
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    uniform: torch.Tensor,
    greedy: bool,
) -> None:
    """The rules above; rows of temperature 0 cost no more than a search for their largest (torch's takes the first)."""
    torch.argmax(logits, -1, out=out)
    if greedy:
        return
    rows = temperature.nonzero()[:, 0]
    if not len(rows):
        return
    kept = kept_probabilities(logits[rows], temperature[rows], top_k[rows], top_p[rows])
    cumulative = kept.cumsum(-1)
    threshold = uniform[rows].unsqueeze(1) * cumulative[:, -1:]
    out[rows] = ((cumulative > threshold) & (kept > 0)).int().argmax(-1)


def cases(draw: Draw) -> Iterator[Case]:
    """Every rule alone and together in one batch, and the first alone; vocabularies that are no power of two; equals.

    Where a draw, or a border of top-p, falls decides rounding only near a border: the cases keep away from them.
    """
    for vocab, rows in ((50, 8), (1000, 8), (2051, 8)):
        logits = draw.normal(rows, vocab, scale=3.0)
        logits[7, vocab // 2 :] = logits[7, : vocab - vocab // 2].clone()
        temperature = draw.values([0.0, 1.0, 0.7, 1.0, 1.3, 0.5, 0.0, 1.0], torch.float32)
        top_k = draw.values([0, 0, 5, 0, 40, 1, 3, 7], torch.int32)
        top_p = draw.values([1.0, 1.0, 1.0, 0.8, 0.9, 1.0, 0.5, 0.6], torch.float32)
        kept = kept_probabilities(logits, temperature, top_k, top_p).double()
        middle = (kept.cumsum(-1) - kept / 2) / kept.sum(-1, keepdim=True)
        chosen = draw.integers(rows, high=vocab)
        chosen = torch.where(kept.gather(1, chosen.unsqueeze(1))[:, 0] > 1e-3, chosen, kept.argmax(-1))
        yield Case(
            f"{rows} rows of {vocab}",
            {
                "out": draw.poison(rows, dtype=torch.int64),
                "logits": logits,
                "temperature": temperature,
                "top_k": top_k,
                "top_p": top_p,
                "uniform": middle.gather(1, chosen.unsqueeze(1))[:, 0].float(),
            },
        )
        yield Case(
            f"{rows} rows of {vocab}, all the most probable",
            {
                "out": draw.poison(rows, dtype=torch.int64),
                "logits": logits.clone(),
                "temperature": torch.zeros_like(temperature),
                "top_k": top_k.clone(),
                "top_p": top_p.clone(),
                "uniform": draw.uniform(rows, dtype=torch.float32),
                "greedy": True,
            },
        )


_F32 = ("float32",)

CONTRACT = Contract(
    name="sample",
    arguments=(
        writes("out", "rows", "the tokens", dtypes=("int64",)),
        reads("logits", "rows, vocab", "of each token"),
        reads("temperature", "rows", "0: the most probable token", dtypes=_F32),
        reads("top_k", "rows", "tokens that are kept; 0: all", dtypes=("int32",)),
        reads("top_p", "rows", "probability that is kept; 1: all", dtypes=_F32),
        reads("uniform", "rows", "random numbers from 0 up to, not including, 1", dtypes=_F32),
        option("greedy", bool, "all temperatures are 0, so that no host waits for a device to say so", default=False),
    ),
    reference=reference,
    cases=cases,
    tolerance={
        dtype: Tolerance(0.0, 0.0, "tokens are equal; another one only where a sum of float32 rounds across a border")
        for dtype in ("float32", "float16", "bfloat16")
    },
    dtype_of="logits",
)
