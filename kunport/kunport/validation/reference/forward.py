"""What the reference computes for one request.

Each forward is of one unpadded sequence from its start: Hugging Face's own cached decode is wrong or missing in a
tenth of the architectures, and padding would bring its own masks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kunport.validation.comparison.recordings import Expected


@torch.inference_mode()
def prompt_logits(model: torch.nn.Module, ids: Sequence[int]) -> torch.Tensor:
    """Logits at every position, ``[len(ids), V]``, float32.

    Raises:
        ValueError: some are NaN or infinite where no model means them to be: nothing can be compared with them.
    """
    logits: torch.Tensor = model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0].float()
    # Minus infinity is how a model rules a token out; all of them leaves nothing to choose from.
    wrong = (logits.isnan() | (logits == torch.inf)).any(dim=-1) | (logits == -torch.inf).all(dim=-1)
    if wrong.any():
        position = int(wrong.nonzero()[0])
        raise ValueError(f"the reference's own logits are not finite, at position {position} of {len(ids)} tokens")
    return logits


def continue_greedily(model: torch.nn.Module, prompt: Sequence[int], logits: torch.Tensor, tokens: int) -> Expected:
    """The record of a request: the prompt's log-probabilities, and ``tokens`` greedy steps with theirs.

    ``logits`` are `prompt_logits` of the prompt; their last row decides the first token.
    """
    ids, steps = list(prompt), [logits[-1]]
    for _ in range(tokens - 1):
        ids.append(int(steps[-1].argmax()))
        steps.append(prompt_logits(model, ids)[-1])
    chosen = torch.stack(steps)
    return Expected(
        prompt=torch.log_softmax(logits[:-1], dim=-1).numpy(),
        steps=torch.log_softmax(chosen, dim=-1).numpy(),
        tokens=chosen.argmax(dim=-1).numpy(),
    )
