"""The attention masks that ``mask`` nodes stand for."""

from __future__ import annotations

import torch

from kunport.errors import KunportError


def additive_mask(
    kind: str, window: int | None, batch: int, length: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """``[batch, 1, length, length]``: 0 where a query sees a key, the lowest number of ``dtype`` elsewhere.

    ``kind`` is ``causal``, ``sliding`` (the last ``window`` keys, the query's own included), ``chunked`` (the
    keys up to the query's own in its chunk of ``window``) or ``bidirectional``.
    """
    query = torch.arange(length, device=device)[:, None]
    key = torch.arange(length, device=device)[None, :]
    seen = key <= query
    if kind == "bidirectional":
        seen = torch.ones_like(seen)
    elif kind == "sliding" and window is not None:
        seen = seen & (key > query - window)
    elif kind == "chunked" and window is not None:
        seen = seen & (key // window == query // window)
    elif kind != "causal":
        raise KunportError(
            f"There is no attention mask of kind {kind} with window {window}.", "Report the model's name."
        )
    mask = torch.where(seen, 0.0, torch.finfo(dtype).min).to(dtype)
    return mask.expand(batch, 1, length, length)
