"""Real models of Transformers: the graph gives their logits, their module tree and their state."""

import pytest
import torch
from kunport.analysis import analyze
from kunport.tiny_models import build, find_case
from kunport.validation.executor import execute
from kunport_codegen.expression import unwrap

pytestmark = pytest.mark.untraced

SLICE = "llama qwen2 qwen3 mistral olmo2 gemma2 gemma3_text phi3 gpt_neox starcoder2 cohere glm4 granite smollm3"
SLICE = [*SLICE.split(), "stablelm", "mixtral"]
# Other positions, fused weights, latent attention, state spaces, layers that differ, shared blocks, other rotary tables.
OTHERS = [
    "gpt2",
    "bloom",
    "mpt",
    "falcon",
    "opt",
    "dbrx",
    "deepseek_v3",
    "jamba",
    "gemma3n_text",
    "zamba2",
    "qwen3_next",
]
OTHERS += ["gemma4_text", "llama4_text", "gpt_oss", "mamba2", "llama:llama3_rope", "llama:bias_tied_yarn", "ctrl"]


def read(case, folder, engine=False):
    """The analysis of a tiny checkpoint's configuration, and the model itself."""
    config, model = build(find_case(case), engine=engine)
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    return analyze(folder), model


def named_tensors(model):
    return dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))


def relative_error(analysis, model, ids):
    with torch.no_grad():
        expected = model(input_ids=ids, use_cache=False).logits
        got = execute(analysis.graph, named_tensors(model), ids)
    assert got.shape == expected.shape
    return float((got - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("case", [*SLICE, *OTHERS])
def test_graph_is_the_model(case, tmp_path):
    analysis, model = read(case, tmp_path, engine=case in SLICE)
    graph = analysis.graph
    assert not analysis.unknowns
    assert {path: each.cls for path, each in graph.modules.items()} == {
        path: type(each).__name__ for path, each in model.named_modules()
    }
    parameters = dict(model.named_parameters(remove_duplicate=False))
    assert {path: tuple(map(unwrap, each.shape)) for path, each in graph.parameters.items() if not each.buffer} == {
        path: tuple(each.shape) for path, each in parameters.items()
    }
    assert {path for path, each in graph.parameters.items() if each.buffer} == model.state_dict().keys() - parameters
    shared = {path for path, source in graph.tied for path in (path, source)}
    owners = {}
    for path, each in parameters.items():
        owners.setdefault(each.data_ptr(), []).append(path)
    assert shared == {path for paths in owners.values() if len(paths) > 1 for path in paths}
    assert not any("unrolled" in note for note in graph.notes)
    for batch, length in ((1, 13), (3, 4)):
        ids = torch.randint(5, 250, (batch, length), generator=torch.Generator().manual_seed(length))
        assert relative_error(analysis, model, ids) <= 1e-6


def test_every_node_has_its_place(tmp_path):
    analysis, _ = read("gemma3_text", tmp_path)
    graph = analysis.graph
    frames = {frame.id for frame in graph.frames}
    ids = [node.id for node in graph.walk()]
    assert len(ids) == len(set(ids))
    for node in graph.walk():
        assert node.where.file in analysis.sources
        assert node.where.line > 0
        assert node.frame in frames
    paths = [frame.path for frame in graph.frames if frame.kind == "module"]
    assert {path for path in graph.modules if path.endswith("self_attn")} <= set(paths)
    attention = [frame for frame in graph.frames if frame.name == "eager_attention_forward"]
    assert len(attention) == 4
    for frame in attention:
        assert graph.frames[frame.parent].path.endswith("self_attn")
        assert {"query", "key", "value", "attention_mask", "scaling"} <= set(frame.inputs)
        assert len(frame.output) == 2


def test_lines_are_those_of_the_source(tmp_path):
    analysis, _ = read("llama", tmp_path)
    (line,) = {node.where for node in analysis.graph.nodes if node.op == "softmax"}
    import transformers.models.llama.modeling_llama as source

    with open(source.__file__) as file:
        assert "softmax" in file.read().splitlines()[line.line - 1]
    assert line.file == "transformers/models/llama/modeling_llama.py"


def test_masks_of_every_kind(tmp_path):
    kinds = {}
    for case in ("llama", "gemma3_text", "llama4_text"):
        analysis, _ = read(case, tmp_path)
        for node in analysis.graph.nodes:
            if node.op == "mask":
                kinds[node.args[0]] = node.args[1] and str(node.args[1].expr)
    assert kinds == {"causal": None, "sliding": "config.sliding_window", "chunked": "config.attention_chunk_size"}


def test_same_model_same_graph(tmp_path):
    first, _ = read("gemma3_text", tmp_path)
    second = analyze(tmp_path)
    assert repr(first.graph) == repr(second.graph)


def test_configuration_fields_can_be_replaced():
    assert (
        str(analyze("llama", config={"num_hidden_layers": 2, "hidden_act": "gelu"}).graph.guards).count("'gelu'") == 1
    )
    assert len(analyze("llama", config={"num_hidden_layers": 1}).graph.modules) < 30


@pytest.mark.parametrize("case", ["gpt_neox", "qwen3_next", "llama"])
def test_names_that_loading_leaves_aside_are_in_the_graph(case, tmp_path):
    analysis, model = read(case, tmp_path)
    assert analysis.graph.ignored == sorted(model._keys_to_ignore_on_load_unexpected or [])
