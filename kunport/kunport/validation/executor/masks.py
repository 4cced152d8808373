"""The attention masks that ``mask`` nodes stand for."""

from __future__ import annotations

import torch

from kunport.errors import KunportError


def additive_mask(
    kind: str,
    window: int | None,
    batch: int,
    length: int,
    dtype: torch.dtype,
    device: torch.device,
    *,
    keys: int | None = None,
    seen: int | None = None,
) -> torch.Tensor:
    """``[batch, 1, length, keys]``: 0 where a query sees a key, the lowest number of ``dtype`` elsewhere.

    Queries and keys are the last ones of the ``seen`` tokens so far; all three are as many if not given. ``kind`` is
    ``causal``, ``sliding`` (the last ``window`` keys, the query's own included), ``chunked`` (the keys up to the
    query's own in its chunk of ``window``) or ``bidirectional``.
    """
    keys = length if keys is None else keys
    end = keys if seen is None else seen
    query = torch.arange(end - length, end, device=device)[:, None]
    key = torch.arange(end - keys, end, device=device)[None, :]
    visible = key <= query
    if kind == "bidirectional":
        visible = torch.ones_like(visible)
    elif kind == "sliding" and window is not None:
        visible = visible & (key > query - window)
    elif kind == "chunked" and window is not None:
        visible = visible & (key // window == query // window)
    elif kind != "causal":
        raise KunportError(
            f"There is no attention mask of kind {kind} with window {window}.", "Report the model's name."
        )
    return torch.where(visible, 0.0, torch.finfo(dtype).min).to(dtype).expand(batch, 1, length, keys)
