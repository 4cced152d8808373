"""Source and fields of which no model can be built are refused in words that name the place, in good time."""

import json
import time
from pathlib import Path

import pytest
from kunport.analysis import analyze
from kunport.errors import KunportError
from kunport.variants import read_facts

SOURCE = """
import torch.nn as nn
from transformers import PretrainedConfig, PreTrainedModel

class NetConfig(PretrainedConfig):
    model_type = "netlike"

    def __init__(self, vocab_size=16, hidden_size=8, num_hidden_layers=2, num_heads=2, **kw):
        for name, value in locals().items():
            if name not in ("self", "kw", "__class__"):
                setattr(self, name, value)
        super().__init__(**kw)

class Norm(nn.LayerNorm):
    pass

class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.hidden_size % config.num_heads:
            raise ValueError("hidden_size must be a multiple of num_heads")
        self.norm, self.up = Norm(config.hidden_size), nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x):
        return x + self.up(self.norm(x)).relu()

class NetForCausalLM(PreTrainedModel):
    config_class = NetConfig

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config) for _ in range(config.num_hidden_layers)])
        self.head = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)
"""
MAP = {"AutoConfig": "net.NetConfig", "AutoModelForCausalLM": "net.NetForCausalLM"}


def written(folder: Path, source: str = SOURCE, auto_map: dict[str, str] = MAP, **fields: object) -> Path:
    (folder / "net.py").write_text(source)
    config = {"model_type": "netlike", "architectures": ["NetForCausalLM"], "auto_map": auto_map, **fields}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_fields_that_a_constructor_takes_from_its_own_variables_are_read(tmp_path: Path) -> None:
    facts = read_facts(analyze(written(tmp_path, num_hidden_layers=3)).graph)
    assert facts.model["layers"].value == 3
    assert facts.model["state"].value == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"num_hidden_layers": -3}, "The field num_hidden_layers is -3"),
        ({"hidden_size": 8.5}, "The field hidden_size is 8.5"),
        ({"num_heads": 0}, "ZeroDivisionError: .*, where num_heads is 0"),
        ({"hidden_size": "8", "num_heads": 1}, "where hidden_size is '8'"),
        ({"num_heads": 3}, "net.py:21: __init__ raises ValueError, where num_heads is 3"),
        ({"hidden_size": 1 << 50}, "a number of 16 digits"),
        ({"num_hidden_layers": 100_000}, "The field num_hidden_layers is 100,000: .* at most 1,024 layers"),
    ],
)
def test_values_of_which_no_model_can_be_built_are_refused_by_field(tmp_path: Path, fields: object, words: str) -> None:
    with pytest.raises(KunportError, match=words):
        analyze(written(tmp_path, **fields))  # type: ignore[arg-type]


def test_a_constructor_that_fails_of_itself_is_reported_as_far_as_it_goes(tmp_path: Path) -> None:
    source = SOURCE.replace("super().__init__(config)\n", "super().__init__(config)\n        self.x = nowhere\n")
    facts = read_facts(analyze(written(tmp_path, source)).graph)
    assert {key: fact.reason != "" for key, fact in facts.model.items()}.items() >= {("state", True), ("layers", True)}


def test_a_line_that_is_no_python_is_named_where_it_hides_the_model(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import torch\n\nclass Part:\n    def forward(self:\n        pass\n")
    with pytest.raises(KunportError, match=r"broken\.py, line 4, is not valid Python"):
        analyze(path)


@pytest.mark.parametrize("key", MAP)
def test_code_of_another_repository_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(KunportError, match="code of the repository someone/model"):
        analyze(written(tmp_path, auto_map=MAP | {key: f"someone/model--{MAP[key]}"}))


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("def __call__(cls, *args): return None", False),
        (
            "def __new__(mcs, name, bases, space):\n        space['forward'] = None\n        return type(name, bases, space)",
            False,
        ),
        (
            "def __new__(mcs, name, bases, space):\n        ALL.append(name)\n        return super().__new__(mcs, name, bases, space)",
            True,
        ),
        ("kinds = 1", True),
    ],
)
def test_a_metaclass_that_may_change_its_classes_is_not_passed_over(tmp_path: Path, body: str, known: bool) -> None:
    made = f"ALL = []\n\nclass Kind(type):\n    {body}\n\nclass Norm(nn.LayerNorm, metaclass=Kind):"
    graph = analyze(written(tmp_path, SOURCE.replace("class Norm(nn.LayerNorm):", made))).graph
    assert (not graph.unknowns()) == known
    assert known or "metaclass Kind" in str(graph.unknowns()[0].args[0])


def test_tens_of_thousands_of_classes_beside_a_model_end_soon(tmp_path: Path) -> None:
    written(tmp_path)
    chain = [f"class C{n}(C{n - 1} if True else object): pass" for n in range(1, 20_000)]
    (tmp_path / "more.py").write_text("\n".join(["from torch.nn import Module as C0", *chain]))
    (tmp_path / "config.json").unlink()
    start = time.process_time()
    assert analyze(tmp_path / "net.py").architecture == "NetForCausalLM"
    assert time.process_time() - start < 10
