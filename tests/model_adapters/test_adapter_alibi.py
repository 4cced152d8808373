"""Slopes of ALiBi over ranks."""

from __future__ import annotations

import pytest
from kunport_codegen.lowering.alibi import usual_slopes
from kunport_model_adapters import alibi


@pytest.mark.parametrize("heads", [4, 8, 12])
def test_ranks_have_the_slopes_of_their_heads(monkeypatch: pytest.MonkeyPatch, heads: int) -> None:
    whole: list[float] = []
    monkeypatch.setattr(alibi, "get_tensor_model_parallel_world_size", lambda: 2)
    for rank in range(2):
        monkeypatch.setattr(alibi, "get_tensor_model_parallel_rank", lambda rank=rank: rank)
        whole += alibi.alibi_slopes(heads)
    assert whole == usual_slopes(heads, 8.0)
