"""Tables among the saved buffers are what the constructor computes, unless the checkpoint or forward says otherwise."""

import json
from pathlib import Path

import pytest
import torch
from kunport.analysis import Analysis, analyze
from kunport.analysis.weights.proof import check
from kunport.validation.executor import execute
from kunport.variants import read_facts
from safetensors.torch import save_file

SOURCE = """
import torch
import torch.nn as nn
from transformers import PretrainedConfig, PreTrainedModel


class TableConfig(PretrainedConfig):
    model_type = "table"


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.register_buffer("bias", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32))
        self.register_buffer("gain", torch.ones(width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (each.view(batch, length, 2, -1).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-1, -2) * (width // 2) ** -0.5
        scores = scores.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf"))
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        WRITE
        return self.out(mixed * self.gain)


class Table(PreTrainedModel):
    config_class = TableConfig

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(60, 16)
        self.layers = nn.ModuleList([Attention(16) for _ in range(2)])
        self.head = nn.Linear(16, 60, bias=False)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)
"""
CONFIG = {
    "model_type": "table",
    "architectures": ["Table"],
    "auto_map": {"AutoConfig": "modeling_table.TableConfig", "AutoModelForCausalLM": "modeling_table.Table"},
    "vocab_size": 60,
}
TRIANGLE = torch.tril(torch.ones(1, 1, 32, 32))


def weights(mask: torch.Tensor | None) -> dict[str, torch.Tensor]:
    made = torch.Generator().manual_seed(0)
    state = {"embed.weight": torch.randn(60, 16, generator=made), "head.weight": torch.randn(60, 16, generator=made)}
    for layer in range(2):
        state[f"layers.{layer}.qkv.weight"] = torch.randn(48, 16, generator=made)
        state[f"layers.{layer}.out.weight"] = torch.randn(16, 16, generator=made)
        state[f"layers.{layer}.gain"] = torch.randn(16, generator=made)
        if mask is not None:
            state[f"layers.{layer}.bias"] = mask.clone()
    return state


def analyzed(folder: Path, mask: torch.Tensor | None, write: str = "pass") -> Analysis:
    (folder / "modeling_table.py").write_text(SOURCE.replace("WRITE", write))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(weights(mask), folder / "model.safetensors")
    return analyze(folder)


def kind(analysis: Analysis) -> str:
    layer = read_facts(analysis.graph).as_dict()["layers"][0]["facts"]["attention.kind"]
    return layer["status"] if layer["status"] == "opaque" else layer["value"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.uint8])
def test_a_table_that_the_checkpoint_has_as_well_is_what_the_constructor_computes(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    analysis = analyzed(tmp_path, TRIANGLE.to(dtype))
    assert kind(analysis) == "softmax"
    assert (analysis.missing, analysis.unused) == ([], [])
    assert [note for note in analysis.graph.notes if "layers.*.bias" in note]
    assert analysis.graph.parameters["layers.1.gain"].initial is None  # ones everywhere: a place for data


def test_a_table_that_the_checkpoint_lacks_is_not_missing(tmp_path: Path) -> None:
    analysis = analyzed(tmp_path, None)
    assert analysis.missing == []
    shapes = {name: tuple(tensor.shape) for name, tensor in weights(None).items()}
    assert check(analysis.graph, shapes).fits
    del shapes["layers.0.gain"]
    assert [fault.name for fault in check(analysis.graph, shapes).faults] == ["layers.0.gain"]


def test_a_checkpoint_with_another_table_is_believed(tmp_path: Path) -> None:
    analysis = analyzed(tmp_path, torch.ones_like(TRIANGLE))
    assert kind(analysis) == "opaque"
    assert [note for note in analysis.graph.notes if "holds another layers.1.bias" in note]
    assert all(analysis.graph.parameters[f"layers.{layer}.bias"].initial is None for layer in range(2))


def test_a_table_that_forward_writes_to_is_data(tmp_path: Path) -> None:
    analysis = analyzed(tmp_path, TRIANGLE, write="self.bias.mul_(1)")
    assert kind(analysis) == "opaque"
    assert analysis.graph.parameters["layers.0.bias"].initial is None


def test_what_runs_is_what_the_checkpoint_holds(tmp_path: Path) -> None:
    graph = analyzed(tmp_path, None).graph
    tokens = torch.arange(12).reshape(1, 12)
    window = TRIANGLE * torch.triu(torch.ones(32, 32), -3)
    plain, same, other = (execute(graph, weights(mask), tokens) for mask in (None, TRIANGLE, window))
    assert torch.equal(plain, same)
    assert torch.equal(plain[:, :4], other[:, :4])
    assert not torch.allclose(plain[:, 6:], other[:, 6:])
