"""A model whose source decides something on the length is read again where the decision falls otherwise."""

from __future__ import annotations

from pathlib import Path

import torch
from kunport.validation.executor import execute, misread
from kunport.validation.readings import Readings

SOURCE = """
import torch
from torch import nn


class SampleForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(16, 8)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        if x.shape[1] > 8:
            x = x * 2
        return x
"""


def test_both_ways_of_a_decision(tmp_path: Path) -> None:
    file = tmp_path / "modeling_sample.py"
    file.write_text(SOURCE)
    readings, table = Readings(file), torch.randn(16, 8)
    for length, factor in ((12, 2), (5, 1), (8, 1), (9, 2)):
        tokens = torch.arange(length)[None]
        graph = readings.whole(1, length)
        assert misread(graph, 1, length) is None
        assert torch.equal(execute(graph, {"embed.weight": table}, tokens), table[tokens] * factor)
    assert readings.count == 2
    assert not readings.decodes
    assert readings.count == 3  # with the search for a cache
    assert not readings.unknowns()
