"""Which lines the configuration chose, and that facts say so."""

from pathlib import Path

import pytest
from kunport.analysis import analyze
from kunport.variants import read_facts
from kunport_codegen.graph import Graph

CONFIG = {"wide": True, "gate": "relu", "before": True, "width": 8, "depth": 2, "vocab": 16}

SOURCE = """
import torch
from torch import nn

ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU}


class Plain(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up, self.down = nn.Linear(config.width, 16), nn.Linear(16, config.width)
        self.act = ACTIVATIONS[config.gate]()

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class Gated(Plain):
    def __init__(self, config):
        super().__init__(config)
        self.gate = nn.Linear(config.width, 16)

    def forward(self, x):
        return self.down(self.act(self.up(x)) * self.gate(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.norm = nn.LayerNorm(config.width)
        if config.wide:
            self.mlp = Plain(config)
        else:
            self.mlp = Gated(config)

    def forward(self, x):
        if self.config.before:
            return x + self.mlp(self.norm(x))
        return self.norm(x + self.mlp(x))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.vocab, config.width)
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.depth)])
        self.head = nn.Linear(config.width, config.vocab)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    path: Path = tmp_path_factory.mktemp("choices") / "chosen.py"
    path.write_text(SOURCE)
    return analyze(path, config=CONFIG).graph


def _chosen(graph: Graph) -> dict[str, list[str]]:
    lines = SOURCE.splitlines()
    return {lines[choice.first - 1].strip(): list(choice.fields) for choice in graph.choices}


def test_a_branch_a_name_and_an_early_return_are_chosen(graph: Graph) -> None:
    assert _chosen(graph) == {
        "self.mlp = Plain(config)": ["wide"],
        "self.act = ACTIVATIONS[config.gate]()": ["gate"],
        "return x + self.mlp(self.norm(x))": ["before"],
    }


def test_a_count_chooses_nothing(graph: Graph) -> None:
    assert not any("depth" in choice.fields for choice in graph.choices)


def test_what_a_chosen_class_does_depends_on_the_choice(graph: Graph) -> None:
    facts = read_facts(graph).layer(0)
    assert facts["mlp.kind"].value == "plain"
    assert facts["mlp.kind"].fields == ("wide",)  # not on the place of the call, which both branches have
    assert facts["mlp.activation"].fields == ("gate", "wide")


def test_what_follows_an_early_return_that_was_not_taken_is_chosen(tmp_path: Path) -> None:
    path = tmp_path / "other.py"
    path.write_text(SOURCE)
    graph = analyze(path, config={**CONFIG, "before": False}).graph
    assert _chosen(graph) == {
        "self.mlp = Plain(config)": ["wide"],
        "self.act = ACTIVATIONS[config.gate]()": ["gate"],
        "return self.norm(x + self.mlp(x))": ["before"],
    }
    assert read_facts(graph).layer(0)["mlp.kind"].fields == ("wide",)
