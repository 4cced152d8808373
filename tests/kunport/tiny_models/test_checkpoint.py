import json

import pytest
import torch
from kunport.errors import KunportError
from kunport.tiny_models import build, find_case
from kunport.tiny_models.checkpoint import MARKER, write_checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer


def test_a_checkpoint_loads_as_the_model_it_was_made_from(tmp_path):
    folder = write_checkpoint("mixtral", tmp_path / "mixtral", seed=3)
    _, model = build(find_case("mixtral"), seed=3, engine=True)
    loaded = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    assert loaded.keys() == model.state_dict().keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in model.state_dict().items())
    assert json.loads((folder / MARKER).read_text())["case"] == "mixtral"
    assert [entry.name for entry in tmp_path.iterdir()] == ["mixtral"]


def test_its_tokenizer_reads_any_text_back(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(write_checkpoint("llama", tmp_path / "llama"))
    text = "héllo, wörld\n\t你好 🎉"
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    assert len(tokenizer) == 256


def test_a_checkpoint_of_ours_is_replaced(tmp_path):
    write_checkpoint("llama", tmp_path / "model")
    write_checkpoint("gpt_neox", tmp_path / "model", dtype="bfloat16")
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert (config["model_type"], config["dtype"]) == ("gpt_neox", "bfloat16")


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(KunportError, match="did not make it"):
        write_checkpoint("llama", tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_in_the_way_is_left_alone(tmp_path):
    (tmp_path / "model").write_text("mine")
    with pytest.raises(KunportError, match="is a file"):
        write_checkpoint("llama", tmp_path / "model")
    with pytest.raises(KunportError, match="Cannot write"):
        write_checkpoint("llama", tmp_path / "model" / "below")
    assert (tmp_path / "model").read_text() == "mine"
