"""The graph against its model, at lengths for which it was read and at others."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
from kunport.analysis.assemble import read_target
from kunport.analysis.config import load_config
from kunport.analysis.library import locate
from kunport.validation.reference.graph import check_graph
from torch import nn

SOURCE = """
import torch
from torch import nn


class SampleForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(16, 8)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        return x * FACTOR if x.shape[1] > 8 else x
"""
PROMPTS = [list(range(length)) for length in (12, 5, 8, 9)]


def compared(folder: Path, factor: int) -> dict[str, object]:
    """What the comparison says of a model that doubles long prompts, where its source has another factor."""
    file, pickled = folder / "modeling_sample.py", folder / "graph.pickle"
    file.write_text(SOURCE.replace("FACTOR", str(factor)))
    target = locate(file)
    pickled.write_bytes(pickle.dumps(read_target(target, load_config(target)).graph))
    model = nn.ModuleDict({"embed": nn.Embedding(16, 8)})
    rows = [model["embed"](torch.tensor(prompt)).detach() for prompt in PROMPTS]
    return check_graph(pickled, file, model, PROMPTS, [row * 2 if len(row) > 8 else row for row in rows])


def test_a_decision_on_the_length_is_read_both_ways(tmp_path: Path) -> None:
    found = compared(tmp_path, 2)
    assert found == {"positions": 34, "readings": 2, "max_absolute": 0, "max_relative": 0}


def test_what_differs_at_some_lengths_alone_is_seen(tmp_path: Path) -> None:
    found = compared(tmp_path, 3)
    assert isinstance(found["max_relative"], float)
    assert found["max_relative"] > 0.1
