"""From the names and tensors that save_pretrained writes back to the module tree, by the renames alone."""

import re

import pytest
import torch
from kunport.analysis.renames import SubModel, as_saved, conversions_of, from_checkpoint, read_renames
from kunport.tiny_models import build, find_case

# One of each kind of difference: stacked experts under other names, a fused projection split, convolutions joined, a
# class's own rename, another root, a sharded embedding, a fused expert tensor renamed; and models without any.
CASES = [
    "mixtral",
    "hrm_text",
    "olmo_hybrid",
    "gpt_neox",
    "nemotron_h",
    "qwen4_exp_text",
    "granitemoe",
    "olmo2",
    "gemma3_text",
]


def gathered(renames, tensors):
    """The tree's tensors, by what the graph's `Rename` documents."""
    tree, taken = {}, set()
    for rename in renames:
        columns = {}
        for index, source in enumerate(rename.sources):
            pattern = re.compile(re.escape(source).replace(r"\*", r"(\d+)"))
            for name in tensors:
                if match := pattern.fullmatch(name):
                    numbers, count = match.groups(), rename.target.count("*")
                    target = rename.target.replace("*", "{}").format(*numbers[:count])
                    columns.setdefault(target, {})[index, tuple(map(int, numbers[count:]))] = tensors[name]
                    taken.add(name)
        for target, column in columns.items():
            assert target not in tree
            assert {index for index, _ in column} == set(range(len(rename.sources)))
            tree[target] = operated(rename.operations, [column[key] for key in sorted(column)], len(rename.sources))
    rest = {name: tensor for name, tensor in tensors.items() if name not in taken}
    assert not rest.keys() & tree.keys()
    return tree | rest


def operated(operations, tensors, sources):
    for operation in operations:
        name, _, arguments = operation.partition(":")
        numbers = [int(number) for number in arguments.split(",") if number]
        if name == "stack":
            count = len(tensors) // sources
            tensors = [torch.stack(tensors[start : start + count]) for start in range(0, len(tensors), count)]
        elif name == "concatenate":
            tensors = [torch.cat(tensors, numbers[0])]
        elif name == "chunk":
            tensors = [tensors[0].chunk(numbers[2], numbers[0])[numbers[1]]]
        else:
            raise AssertionError(operation)
    (tensor,) = tensors
    return tensor


@pytest.fixture(scope="module", params=CASES)
def saved(request):
    """A tiny model: (its pretrained parts, base, state, what would be on disk)."""
    from transformers import PreTrainedModel
    from transformers.core_model_loading import revert_weight_conversion

    _, model = build(find_case(request.param))
    parts = [
        SubModel(path, type(module).__name__, module.config.model_type)
        for path, module in model.named_modules()
        if isinstance(module, PreTrainedModel)
    ]
    state = model.state_dict()
    return parts, model.base_model_prefix, state, revert_weight_conversion(model, dict(state))


def test_what_saving_writes_reaches_every_tensor_of_the_tree(saved):
    parts, base, state, disk = saved
    renames = as_saved(conversions_of(parts, base), state).renames
    tree = gathered(renames, disk)
    assert tree.keys() == state.keys()
    assert all(torch.equal(tree[name], state[name]) for name in state)


def test_a_checkpoint_gives_the_same_renames_as_its_model(saved):
    parts, base, state, disk = saved
    conversions = conversions_of(parts, base)
    found = from_checkpoint(conversions, base, state, disk)
    assert set(found.renames) == set(as_saved(conversions, state).renames)
    assert (found.unused, found.missing) == ([], [])


def test_the_root_alone_finds_what_the_whole_tree_does(saved):
    parts, base, _, _ = saved
    assert conversions_of(parts[:1], base) == conversions_of(parts, base)


def test_names_that_are_the_trees_already_need_no_rename(saved):
    parts, base, state, _ = saved
    assert from_checkpoint(conversions_of(parts, base), base, state, state).renames == []


def test_a_checkpoint_of_the_base_model_alone_lacks_its_name():
    state = ["model.layers.0.norm.weight", "model.layers.1.norm.weight", "model.norm.weight", "lm_head.weight"]
    found = from_checkpoint([], "model", state, ["layers.0.norm.weight", "layers.1.norm.weight", "norm.weight", "x"])
    assert [(rename.sources, rename.target) for rename in found.renames] == [
        (("layers.*.norm.weight",), "model.layers.*.norm.weight"),
        (("norm.weight",), "model.norm.weight"),
    ]
    assert (found.unused, found.missing) == (["x"], ["lm_head.weight"])


def test_a_tree_of_the_base_model_alone_takes_names_that_have_it():
    found = from_checkpoint([], "model", ["norm.weight"], ["model.norm.weight"])
    assert [(rename.sources, rename.target) for rename in found.renames] == [(("model.norm.weight",), "norm.weight")]


def test_old_names_of_layer_norms_are_understood():
    found = from_checkpoint([], "", ["LayerNorm.weight"], ["LayerNorm.gamma"])
    assert [(rename.sources, rename.target) for rename in found.renames] == [(("LayerNorm.gamma",), "LayerNorm.weight")]


def test_one_expert_is_still_stacked():
    conversions = conversions_of([SubModel("", "MixtralForCausalLM", "mixtral")], "model")
    state = ["model.layers.3.mlp.experts.down_proj"]
    found = from_checkpoint(conversions, "model", state, ["model.layers.3.block_sparse_moe.experts.0.w2.weight"])
    (rename,) = found.renames
    assert rename.sources == ("model.layers.*.block_sparse_moe.experts.*.w2.weight",)
    assert rename.operations == ("stack",)


def test_a_located_checkpoint_is_read_and_a_folder_without_weights_is_taken_as_saved(tmp_path):
    import shutil

    from kunport.analysis.library import locate
    from safetensors.torch import save_file

    (tmp_path / "config.json").write_text('{"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"]}')
    models, state = [SubModel("", "GPTNeoXForCausalLM", "gpt_neox")], ["lm_head.weight", "gpt_neox.embed_in.weight"]
    (rename,) = read_renames(locate(tmp_path), models, "gpt_neox", state).renames
    assert (rename.sources, rename.target) == (("embed_out.weight",), "lm_head.weight")

    save_file({"lm_head.weight": torch.zeros(1), "embed_in.weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    (rename,) = read_renames(locate(tmp_path), models, "gpt_neox", state).renames
    assert (rename.sources, rename.target) == (("embed_in.weight",), "gpt_neox.embed_in.weight")

    shutil.copy(locate("gpt_neox").modeling, tmp_path / "modeling_mine.py")
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "config.json").write_text('{"architectures": ["GPTNeoXForCausalLM"], "model_type": "mine"}')
    assert read_renames(locate(tmp_path), models, "gpt_neox", state).renames == []
