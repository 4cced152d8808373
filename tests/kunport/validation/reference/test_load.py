"""Loading the reference: a checkpoint that would leave part of it to chance is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from kunport.errors import KunportError
from kunport.validation.reference.load import load, parameter_count
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    config = LlamaConfig(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(tmp_path)
    return tmp_path


def change(checkpoint: Path, how: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(checkpoint / "model.safetensors")
    how(tensors)
    save_file(tensors, checkpoint / "model.safetensors", metadata={"format": "pt"})


def test_the_reference_is_eager_and_float32_whatever_was_saved(checkpoint: Path) -> None:
    model, unused = load(checkpoint)
    assert unused == []
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.config._attn_implementation == "eager"
    assert not model.training
    assert parameter_count(model) == sum(
        tensor.numel() for tensor in load_file(checkpoint / "model.safetensors").values()
    )


def test_a_missing_tensor_is_named(checkpoint: Path) -> None:
    change(checkpoint, lambda tensors: tensors.pop("model.layers.0.mlp.up_proj.weight"))
    with pytest.raises(KunportError, match=r"lacks: model\.layers\.0\.mlp\.up_proj\.weight\."):
        load(checkpoint)


def test_several_missing_tensors_are_counted(checkpoint: Path) -> None:
    change(
        checkpoint, lambda tensors: [tensors.pop(f"model.layers.0.mlp.{name}_proj.weight") for name in ("up", "down")]
    )
    with pytest.raises(KunportError, match="and 1 more"):
        load(checkpoint)


def test_a_tensor_of_another_shape_is_named_with_both(checkpoint: Path) -> None:
    change(checkpoint, lambda tensors: tensors.update({"model.norm.weight": torch.ones(31)}))
    with pytest.raises(KunportError, match=r"model\.norm\.weight \(\[31\], the model has \[32\]\)"):
        load(checkpoint)


def test_a_tensor_that_the_model_does_not_know_is_told(checkpoint: Path) -> None:
    change(checkpoint, lambda tensors: tensors.update({"model.extra.weight": torch.ones(3)}))
    assert load(checkpoint)[1] == ["model.extra.weight"]
