"""What a checkpoint says beside what was read of it."""

import json

import pytest
from kunport.analysis.library import locate
from kunport.analysis.library.contradictions import contradictions

AUTO_MAP = {"AutoModelForCausalLM": "modeling_mine.Olmo2ForCausalLM"}


@pytest.mark.parametrize(
    ("config", "files", "said"),
    [
        ({"architectures": ["Olmo2ForCausalLM"]}, [], []),
        ({}, [], []),
        ({"architectures": ["LlamaForCausalLM"]}, [], ["names the architecture 'LlamaForCausalLM'"]),
        ({"auto_map": AUTO_MAP}, ["modeling_mine.py"], ["modeling_mine.py of the checkpoint's folder was not read"]),
        ({"auto_map": AUTO_MAP}, [], []),
    ],
)
def test_what_was_not_read_is_said(tmp_path, config, files, said):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "olmo2", **config}))
    for name in files:
        (tmp_path / name).write_text("def (")
    notes = contradictions(locate(tmp_path))
    assert len(notes) == len(said)
    assert all(words in note for note, words in zip(notes, said, strict=True))


def test_a_name_alone_contradicts_nothing():
    assert contradictions(locate("olmo2")) == []
