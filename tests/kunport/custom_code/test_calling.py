"""How models are called that no configuration class describes, and what is said where values are missing."""

import re

import pytest
from kunport.analysis import analyze
from kunport.errors import KunportError

MODEL = """
import torch.nn as nn

class Net(nn.Module):
    def __init__(self, {parameters}):
        super().__init__()
        self.emb = nn.Embedding({vocab}, {width})
        self.head = nn.Linear({width}, {vocab}{more})

    def forward(self, {ids}):
        return self.head(self.emb({token}))
"""
WAYS = {
    "an object": ("args", "args.vocab", "args.width", ""),
    "a dictionary": ("cfg", "cfg['vocab']", "cfg['width']", ""),
    "a dictionary with defaults": ("cfg", "cfg['vocab']", "cfg.get('width', 3)", ""),
    "a part of a tree": ("config", "config.vocab", "config.sizes.width", ""),
    "a part of a dictionary": ("config", "config['vocab']", "config['sizes']['width']", ""),
    "fields": ("vocab, width=3", "vocab", "width", ""),
    "fields by name": ("*, width, vocab", "vocab", "width", ""),
    "fields and others": ("vocab, width, **more", "vocab", "width", ", bias=more['bias']"),
}
CONFIG = {"vocab": 7, "width": 4, "bias": True, "sizes": {"width": 4}}


def written(folder, parameters, vocab, width, more="", ids="x", token="x"):
    path = folder / "net.py"
    path.write_text(MODEL.format(parameters=parameters, vocab=vocab, width=width, more=more, ids=ids, token=token))
    return path


@pytest.mark.parametrize("way", WAYS)
def test_a_model_is_built_from_what_its_constructor_takes(way, tmp_path):
    graph = analyze(written(tmp_path, *WAYS[way]), config=CONFIG).graph
    assert not graph.unknowns()
    shapes = {path: " ".join(map(repr, each.shape)) for path, each in graph.parameters.items()}
    width = "config.sizes" if "sizes" in WAYS[way][2] else "config.width"
    assert set(shapes) == {"emb.weight", "head.weight", "head.bias"}
    assert re.fullmatch(rf"7«config\.vocab» 4«{width}.*»", shapes["head.weight"])


@pytest.mark.parametrize(
    ("way", "missing"),
    [
        ("an object", "reads args.vocab, args.width, and nothing gives them"),
        ("a dictionary", "reads cfg.vocab, cfg.width, and nothing gives them"),
        ("fields", "is built from vocab, and nothing gives vocab"),
        ("fields by name", "is built from width, vocab, and nothing gives width, vocab"),
    ],
)
def test_fields_that_nothing_gives_are_named(way, missing, tmp_path):
    with pytest.raises(KunportError, match=re.escape(missing)) as error:
        analyze(written(tmp_path, *WAYS[way]))
    assert "--config" in error.value.cure


def test_fields_without_default_of_a_configuration_are_named(tmp_path):
    path = written(tmp_path, "c: 'Settings'", "c.vocab", "c.width")
    record = "\nfrom dataclasses import dataclass\n@dataclass\nclass Settings:\n    vocab: int\n    width: int = 3\n"
    path.write_text(path.read_text() + record)
    with pytest.raises(KunportError, match="The configuration Settings needs vocab, and nothing gives it"):
        analyze(path)
    assert not analyze(path, config={"vocab": 7}).unknowns


@pytest.mark.parametrize(
    ("ids", "token", "noted"),
    [
        ("tokens", "tokens", ""),
        ("mask, idx", "idx", "argument mask is taken as None"),
        ("tokens, start_pos", "tokens + start_pos", "argument start_pos is taken as 0"),
        ("*, input_ids, **rest", "input_ids", ""),
        ("sequence, use_cache=True", "sequence * (2 if use_cache else 1)", ""),
    ],
)
def test_forward_gets_token_ids_and_no_past(ids, token, noted, tmp_path):
    graph = analyze(written(tmp_path, *WAYS["fields"], ids=ids, token=token), config=CONFIG).graph
    assert not graph.unknowns()
    assert noted in " ".join(graph.notes)
