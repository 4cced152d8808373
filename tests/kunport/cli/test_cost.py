"""What analyzing one model must not do, so that it ends within a second: counted, never timed."""

import gc
import json
import subprocess
import sys

import pytest
from kunport.analysis.assemble import config_class_of, construct, roots_of, run
from kunport.analysis.config import load_config
from kunport.analysis.library import locate
from kunport.uncollected import uncollected
from kunport_codegen.expression import symbol

from kunport import __main__ as process

# Each takes longer to import than what it would be imported for.
NEEDLESS = (
    *("torch", "transformers", "vllm", "libcst", "rich", "jinja2", "matplotlib", "safetensors", "tokenizers"),
    *("numpy.random", "numpy.fft", "numpy.ma", "numpy.polynomial"),
    *("importlib.metadata", "email", "tempfile", "asyncio", "multiprocessing", "traceback", "unittest", "http"),
    *("kunport_codegen.lowering", "kunport_codegen.emission", "kunport.validation", "kunport.survey"),
)
COUNTED = """
import ast, io, json, sys
from kunport.cli import main
from kunport.variants import reading
from kunport.variants.known import nearest

parsed, compared, layers = [], [], []
parse, differences = ast.parse, nearest.differences
ast.parse = lambda text, *rest, **named: parsed.append(len(text.strip())) or parse(text, *rest, **named)
nearest.differences = lambda *sides: compared.append(sides) or differences(*sides)
read = reading._layer_facts
reading._layer_facts = lambda layer, variants: layers.append(layer.number) or read(layer, variants)
out, sys.stdout = sys.stdout, io.StringIO()
status = main(["analyze", "llama", "--format", "json"])
json.dump([status, sum(parsed), len(compared), list(sys.modules), layers], out)
"""


@pytest.fixture(scope="module")
def counts():
    """What `kunport analyze llama` does.

    Exit status, characters of source parsed, known models compared, modules imported and layers looked into.
    """
    code = f"import sys; sys.path = {sys.path}{COUNTED}"
    return json.loads(subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, check=True).stdout)


def test_analyzing_a_model_imports_only_what_it_needs(counts):
    status, _, _, modules, _ = counts
    assert (status, set(NEEDLESS) & set(modules)) == (0, set())


def test_of_the_source_only_what_is_reached_is_parsed(counts):
    _, parsed, *_ = counts
    assert 50_000 < parsed < 400_000  # the files that it lies in have more than half a million


def test_few_of_the_known_models_are_compared(counts):
    _, _, compared, *_ = counts
    assert 0 < compared < 15


def test_of_equal_layers_one_is_looked_into_beside_the_ends(counts):
    *_, layers = counts
    assert layers == [0, 1, 31]


def test_layers_that_are_alike_run_once():
    target = locate("llama")
    config, spent = load_config(target), {}
    for layers in (2, 32):
        own = config | {"num_hidden_layers": layers}
        made = construct(target.module, target.architecture, roots_of(target), own, config_class_of(target))
        before = made.interpreter.spent
        run(made, symbol("sequence", 11))
        spent[layers] = made.interpreter.spent - before
    assert 0 < spent[32] < 1.5 * spent[2]


def test_layers_that_are_alike_share_their_shapes():
    target = locate("llama")
    own = load_config(target) | {"num_hidden_layers": 8}
    made = construct(target.module, target.architecture, roots_of(target), own, config_class_of(target))
    run(made, symbol("sequence", 11))
    trace = made.interpreter.trace
    paths = {frame.id: frame.path for frame in trace.frames}
    shapes = [
        [id(node.shape) for node in trace.nodes if paths[node.frame].startswith(f"model.layers.{layer}.self_attn")]
        for layer in (1, 7)
    ]
    assert len(shapes[0]) > 10
    assert shapes[0] == shapes[1]


def test_telling_layers_apart_does_not_import_how_they_are_lowered():
    code = f"import sys; sys.path = {sys.path}; import kunport_codegen.lowering.selection; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, check=True, text=True).stdout
    assert "kunport_codegen.lowering.selection" in modules.split()
    assert "kunport_codegen.lowering.passes" not in modules.split()


def test_what_was_made_without_the_collector_is_not_looked_through_at_once_afterwards():
    assert gc.isenabled()
    with uncollected():
        kept = [[each] for each in range(50_000)]
        assert gc.get_count()[0] > len(kept)
    assert (gc.isenabled(), gc.get_count()[0] < 5_000, gc.get_freeze_count()) == (True, True, 0)


def test_what_others_have_frozen_stays_so():
    gc.freeze()
    try:
        with uncollected():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_a_process_ends_without_looking_for_cycles(monkeypatch):
    monkeypatch.setattr(process.cli, "main", lambda: 3)
    try:
        assert process.main() == 3
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
