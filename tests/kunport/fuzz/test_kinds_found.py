"""Kinds of input on which a long fuzz run ended badly, each at its smallest: all end in a report or in one sentence."""

import json

import pytest
from kunport.fuzz import worker

import kunport

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


@pytest.mark.parametrize(
    "body", ["model_type = VALUE", "attribute_map = VALUE", "sub_configs = VALUE", "size: int = VALUE"]
)
@pytest.mark.parametrize("value", ["1j", "unheard_of()", "[3]", "{'vocab_size': 1j}", "{}['none']"])
@pytest.mark.parametrize("base", ["PretrainedConfig", "object"])
def test_what_the_body_of_a_configuration_class_says(ending, base, body, value):
    first = (
        f"from transformers import PretrainedConfig\n\n\nclass CaseConfig({base}):\n    {body.replace('VALUE', value)}\n"
        "    def __init__(self, vocab_size=4, **kwargs):\n        super().__init__()\n        self.vocab_size = vocab_size\n"
    )
    own = {"auto_map": {**FIELDS["auto_map"], "AutoConfig": "modeling_case.CaseConfig"}}
    assert ending(first, fields=own).problem == ""


def test_a_default_that_a_configuration_class_cannot_have(ending):
    first = (
        "class CaseConfig:\n    def __init__(self, vocab_size=1j, **kwargs):\n        self.vocab_size = vocab_size\n"
    )
    own = {"auto_map": {**FIELDS["auto_map"], "AutoConfig": "modeling_case.CaseConfig"}}
    assert ending(first, fields=own).problem == ""


def test_a_module_that_calls_itself_for_each_of_its_parts(ending, tmp_path):
    first = """class Tree(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(width, width) for _ in range(6)])

    def forward(self, x):
        for part in self.parts:
            x = x + self(torch.tanh(part(x)))
        return x"""
    found = ending(first, "self.tree = Tree(config.hidden_size)", "hidden = self.tree(hidden)")
    assert (found.kind, found.problem) == ("unknown", "")
    nodes = kunport.analyze(tmp_path).graph.nodes
    assert len(nodes) < 2000
    assert any("Tree calls itself" in str(node.args[0]) for node in nodes if node.op == "unknown")


@pytest.mark.parametrize("line", ["print('\\d')", "1 is 1", "(1)(2)", "assert (0, 'x')"])
def test_what_the_parser_warns_of_is_not_printed(ending, capfd, line):
    """Warnings are errors in tests, and Python's parser ends with a syntax error where one is."""
    assert ending(line).kind == "report"
    assert not ending(f"{line}\n\n\nX = (").problem
    assert capfd.readouterr().err == ""
