"""Kinds of input on which a long fuzz run ended badly, each at its smallest: all end in a report or in one sentence."""

import json

import pytest
from kunport.fuzz import worker

HEAD = """import enum
import functools
import torch
from torch import nn


class Kind(enum.Enum):
    LOCAL = "local"


"""
MODEL = """class CaseForCausalLM(nn.Module):
    _tied_weights_keys = TIED

    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        SET

    def forward(self, input_ids):
        hidden = self.embed(input_ids)
        RUN
        return self.head(hidden)
"""
FIELDS = {
    "architectures": ["CaseForCausalLM"],
    "auto_map": {"AutoModelForCausalLM": "modeling_case.CaseForCausalLM"},
    "model_type": "case",
    "vocab_size": 16,
    "hidden_size": 8,
}


@pytest.fixture
def ending(tmp_path):
    """How a model with some lines of its own ends under a configuration with some fields of its own."""

    def ending(first="", construct="pass", run="pass", tied="[]", fields=None):
        text = MODEL.replace("SET", construct).replace("RUN", run).replace("TIED", tied)
        (tmp_path / "modeling_case.py").write_text(HEAD + first + "\n\n" + text)
        (tmp_path / "config.json").write_text(json.dumps({**FIELDS, **(fields or {})}))
        return worker.judge(tmp_path)

    return ending


@pytest.mark.parametrize(
    "line",
    [
        "Kind()",
        "Kind('far')",
        "{[]}",
        "dict([[1]])",
        "functools.partial(print).name",
        "super(Kind, None).value",
        "super(Kind, config).value",
        "nn.Linear(config.hidden_size, 0.5)",
        "nn.Linear(config.hidden_size, 'wide')",
        "nn.Linear(config.hidden_size, nn)",
        "torch.zeros(8).view(0, -1)",
        "float(10**400)",
        "torch.arange(10**30)",
    ],
)
def test_calls_that_cannot_work(ending, line):
    for place in ({"construct": f"self.made = {line}"}, {"run": f"hidden = hidden + {line.replace('config', 'self')}"}):
        assert ending(**place).problem == ""


@pytest.mark.parametrize(
    "first",
    [
        "def f(n):\n    return f(n + 1)\n\n\nf(0)",
        "while True:\n    pass",
        "X = 7 ** 10**9",
        "X = 'a'.ljust(10**12)",
        "X = [0] * 10**12",
        "X = 1j",
        "X = " + "(" * 300 + ")" * 300,
        "class Odd:\n    for forward in []:\n        pass\n\n\nX = Odd.forward",
    ],
)
def test_what_a_file_does_when_it_is_imported(ending, first):
    assert ending(first).problem == ""


@pytest.mark.parametrize("tied", ["{'head[': 'embed'}", "{'head': '*'}", "[3]", "{None: None}"])
def test_tied_names_that_are_no_patterns(ending, tied):
    assert ending(tied=tied, fields={"tie_word_embeddings": True}).problem == ""


@pytest.mark.parametrize("name", ["vocab_size", "hidden_size"])
@pytest.mark.parametrize("size", [-5, 0, 2**31 - 1, 2**39, 10**30])
def test_sides_of_weights_that_none_has(ending, name, size):
    found = ending(fields={name: size})
    assert found.problem == ""
    assert found.kind != "report" or size == 0


def test_a_field_that_its_own_class_does_not_take(ending):
    first = (
        "from transformers import PretrainedConfig\n\n\nclass CaseConfig(PretrainedConfig):\n"
        "    def __init__(self, **kwargs):\n        super().__init__(**kwargs)\n        self.kind = Kind.GLOBAL\n"
    )
    own = {"auto_map": {**FIELDS["auto_map"], "AutoConfig": "modeling_case.CaseConfig"}}
    assert ending(first, tied="['head.weight']", fields=own).problem == ""
