"""The table of conversions, read as text, is the one that Transformers has when it runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport.analysis.renames import SubModel, conversions_of
from kunport.analysis.renames.conversion_table import _table


@pytest.fixture(scope="module")
def real():
    """Key -> Transformers' own conversion objects."""
    from transformers.conversion_mapping import _build_checkpoint_conversion_mapping

    return _build_checkpoint_conversion_mapping()


# Keys that Transformers computes from others, for vision models.
COMPUTED = {"Tipsv2DptForNormalEstimation", "Tipsv2DptForSemanticSegmentation"}


def test_every_entry_says_what_the_real_one_does(real):
    from transformers.core_model_loading import GroupWeightRename, PrefixChange, WeightConverter

    for key in sorted(set(real) - COMPUTED):
        read = _table().read(key)
        assert read is not None, key
        assert len(read) == len(real[key]), key
        for conversion, transform in zip(read, real[key], strict=True):
            assert list(conversion.sources) == transform._original_source_patterns
            assert list(conversion.targets) == transform._original_target_patterns
            assert conversion.prefix == isinstance(transform, PrefixChange)
            operations = isinstance(transform, WeightConverter | GroupWeightRename)
            assert bool(conversion.operations) == operations, transform


def test_operations_are_named_as_in_the_graph(real):
    from transformers.core_model_loading import WeightConverter

    names = {
        "MergeModulelist": "stack",
        "Concatenate": "concatenate:",
        "Chunk": "chunk:",
        "Interleave": "deinterleave:",
    }
    for key in sorted(set(real) - COMPUTED):
        for conversion, transform in zip(_table().read(key), real[key], strict=True):
            if isinstance(transform, WeightConverter):
                for read, operation in zip(conversion.operations, transform.operations, strict=True):
                    name = type(operation).__name__
                    assert read.startswith(names.get(name, "transpose:" if name == "Transpose" else "unknown:")) or (
                        name == "Transpose" and operation.check_dims and read.startswith("unknown:")
                    )
                    if name in ("Concatenate", "Chunk", "Interleave"):
                        assert read.endswith(f":{operation.dim}")


def test_a_model_that_is_not_in_the_table_has_no_conversions():
    assert conversions_of([SubModel("", "Olmo2ForCausalLM", "olmo2")], "model") == []


def test_a_class_comes_before_its_model_type():
    (conversion,) = conversions_of([SubModel("", "GPTNeoXForCausalLM", "gpt_neox")], "gpt_neox")
    assert conversion.sources == (r"^embed_out\.",)


def test_a_sub_model_is_not_converted_twice_but_one_of_another_type_is_within_its_path():
    root, inner, other = (
        SubModel("", "MixtralForCausalLM", "mixtral"),
        SubModel("model", "MixtralModel", "mixtral"),
        SubModel("model.language_model", "Olmo", "olmo_hybrid"),
    )
    alone = conversions_of([root], "model")
    assert conversions_of([root, inner], "model") == alone
    assert [each.scope for each in conversions_of([root, other], "model")[len(alone) :]] == ["language_model"] * 3


PARTS = [
    "model",
    "language_model",
    "layers",
    "0",
    "17",
    "mlp",
    "block_sparse_moe",
    "experts",
    "gate_proj",
    "w1",
    "w3",
    "gate",
]
PARTS += [
    "gate_up_proj",
    "down_proj",
    "router",
    "shared_mlp",
    "weight",
    "bias",
    "e_score_correction_bias",
    "self_attn",
    "f_a_proj",
]
KEYS = [
    "mixtral",
    "qwen2_moe",
    "minimax_m2",
    "hy_v3",
    "kimi_linear",
    "qwen3_5_text",
    "granitemoe",
    "hrm_text",
    "phimoe",
    "legacy",
]


@given(key=st.sampled_from(KEYS), parts=st.lists(st.sampled_from(PARTS), min_size=1, max_size=8))
def test_names_are_rewritten_as_by_the_real_conversions_in_both_directions(real, key, parts):
    from copy import deepcopy

    name = ".".join(parts)
    for conversion, transform in zip(_table().read(key), deepcopy(real[key]), strict=True):
        for mine, other in (
            (conversion.to_module, transform),
            (conversion.to_checkpoint, transform.reverse_transform()),
        ):
            expected, matched = other.rename_source_key(name)
            found = mine(name)
            assert (found is None) == (matched is None)
            assert (name if found is None else found[0][0]) == expected


@given(parts=st.lists(st.sampled_from(PARTS), min_size=1, max_size=8), scope=st.sampled_from(["", "language_model"]))
def test_scopes_are_found_as_by_the_real_conversions(real, parts, scope):
    from copy import deepcopy

    name = ".".join(parts)
    (conversion, *_), (transform, *_) = _table().read("mixtral"), deepcopy(real["mixtral"])
    transform.scope_prefix, transform.base_model_prefix = scope, "model"
    scoped = type(conversion)(conversion.sources, conversion.targets, scope=scope, base="model")
    expected, matched = transform.rename_source_key(name)
    found = scoped.to_module(name)
    assert (found is None) == (matched is None)
    assert (name if found is None else found[0][0]) == expected
