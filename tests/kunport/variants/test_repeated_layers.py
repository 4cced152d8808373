"""Layers that repeat another have its facts: the same as if every layer were looked into, in every process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kunport.analysis import analyze
from kunport.variants import read_facts, reading
from kunport.variants.modules import made_alike
from kunport_codegen.graph import Location, Module
from kunport_codegen.recognition import find_all, recognize
from kunport_codegen.recognition.index import Index
from kunport_codegen.recognition.repeats import repeats_of

pytestmark = pytest.mark.untraced

# Uniform; alternating windows; some without rotation; dense layers before experts; mixers beside attention.
# The last one's mixers are proved by their numbers, which takes long: fewer layers.
MODELS = {"llama": {}, "gpt_oss": {}, "smollm3": {}, "glm4_moe": {}, "qwen3_next": {"num_hidden_layers": 20}}


@pytest.mark.parametrize("model", MODELS)
def test_facts_of_layers_that_repeat_another_are_their_own(model, monkeypatch):
    graph = analyze(model, config=MODELS[model]).graph
    index = Index(graph)
    recognised = recognize(graph, index)
    assert recognised == find_all(Index(graph))
    assert len(repeats_of(index).pairs) * 2 > len(repeats_of(index).stretches)
    short = read_facts(graph, recognised).as_dict()
    monkeypatch.setattr(reading, "made_alike", lambda *_: False)
    assert read_facts(graph, recognised).as_dict() == short


def module(path: str, **changed: object) -> dict[str, Module]:
    inner = {"attributes": {"eps": 1e-6}, "children": [], "floats": (), **changed}
    outer = Module(path, "Layer", None, Location("a.py", 1), {"layer_idx": int(path[-1])}, [], [f"{path}.norm"])
    return {path: outer, f"{path}.norm": Module(f"{path}.norm", "Norm", None, Location("a.py", 2), **inner)}


def test_modules_that_differ_in_more_than_their_number_are_not_alike():
    modules = module("layers.0") | module("layers.1") | module("layers.2", attributes={"eps": 1e-5})
    modules |= module("layers.3", floats=(1e-6,)) | module("layers.4", attributes={"epsilon": 1e-6})
    assert [made_alike(modules, "layers.0", f"layers.{number}") for number in range(5)] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_facts_are_the_same_in_every_process():
    """Whatever order sets of names have there."""
    fixture = Path(__file__).parents[1] / "custom_code" / "fixtures" / "trailing_predictors"
    code = f"import sys; sys.path = {sys.path}; from kunport.cli import main; main(['analyze', {str(fixture)!r}, '--format', 'json'])"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
    assert b"router.correction_bias" in found.pop()
