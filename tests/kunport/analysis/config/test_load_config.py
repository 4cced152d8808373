"""The static reading of a configuration against the object that Transformers makes of the same fields."""

import json

import pytest
import torch
from kunport.analysis.config import load_config
from kunport.analysis.library import locate
from kunport.analysis.values import Opaque
from kunport.errors import KunportError
from kunport.tiny_models import find_case
from kunport.tiny_models.build import build_config

SLICE = [
    "llama",
    "qwen2",
    "qwen3",
    "mistral",
    "olmo2",
    "gemma2",
    "gemma3_text",
    "phi3",
    "gpt_neox",
    "starcoder2",
    "cohere",
]
SLICE += ["glm4", "granite", "smollm3", "stablelm", "mixtral"]
# Parts of their own, per-layer overrides, properties with setters, derived lists of layers, renamed attributes.
OTHERS = [
    "blt",
    "dbrx",
    "mpt",
    "gemma4_text",
    "hrm_text",
    "nemotron_h",
    "longcat_flash",
    "jamba",
    "gpt2",
    "falcon",
    "zamba2",
]
NOT_COMPARED = {
    "_output_attentions",
    "_attn_implementation_internal",
    "_experts_implementation_internal",
    "_name_or_path",
}
NOT_COMPARED |= {"base_model_tp_plan", "ignore_keys_at_rope_validation", "_heterogeneity_spec"}


def held(config):
    """The attributes of a real configuration as plain data."""
    fields = {name: plain(value) for name, value in vars(config).items() if name not in NOT_COMPARED}
    if type(config).model_type:
        fields["model_type"] = type(config).model_type
    if config.is_heterogeneous:
        fields["per_layer_config"] = config.to_dict()["per_layer_config"]
    return fields


def plain(value):
    if hasattr(value, "to_diff_dict"):
        return held(value)
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


def typed(value):
    """The value with the type of every scalar, which equality alone does not see (1 == 1.0 == True)."""
    if isinstance(value, dict):
        return {key: typed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [typed(each) for each in value]
    return type(value), value


def write(folder, **fields):
    (folder / "config.json").write_text(json.dumps(fields))
    return folder


def assert_same(folder):
    from transformers import AutoConfig

    assert typed(load_config(locate(folder))) == typed(held(AutoConfig.from_pretrained(folder)))


@pytest.mark.parametrize("model_type", SLICE + OTHERS)
def test_defaults_are_those_of_the_class(model_type):
    from transformers import CONFIG_MAPPING

    assert typed(load_config(locate(model_type))) == typed(held(CONFIG_MAPPING[model_type]()))


@pytest.mark.parametrize("model_type", SLICE + OTHERS[:6])
def test_a_saved_configuration_is_read_as_autoconfig_reads_it(model_type, tmp_path):
    config = build_config(find_case(model_type), engine=True)
    config.dtype = torch.bfloat16
    config.save_pretrained(tmp_path)
    assert_same(tmp_path)


ROPE = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "llama", "rope_scaling": ROPE, "rope_theta": 5e5, "max_position_embeddings": 128},
        {"model_type": "llama", "rope_parameters": {**ROPE, "rope_type": "linear"}, "partial_rotary_factor": 0.5},
        {"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 2.0}},
        {"model_type": "gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 500},
        {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 3},
        {"model_type": "gpt2", "hidden_size": 64, "n_head": 4},
        {"model_type": "phi3", "rope_scaling": None, "torch_dtype": "float16", "sliding_window": 128},
        {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 1, "num_hidden_layers": 3},
        {"model_type": "mistral", "layer_types": ["sliding_attention", "full_attention"], "num_hidden_layers": 2},
        {"model_type": "llama", "unheard_of": {"nested": [1, None]}, "id2label": {"0": "a"}, "temperature": 0.5},
        {"model_type": "gpt-sw3", "n_layer": 2},
    ],
)
def test_old_and_unusual_fields_are_standardised_as_by_the_class(tmp_path, fields):
    assert_same(write(tmp_path, **fields))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model_type": "llama", "hidden_size": "64"}, "the field hidden_size must be int but is '64'"),
        ({"model_type": "llama", "rms_norm_eps": 1}, "the field rms_norm_eps must be float but is 1"),
        ({"model_type": "llama", "num_hidden_layers": None}, "the field num_hidden_layers must be int but is None"),
        ({"model_type": "qwen3", "layer_types": [1]}, "the field layer_types must be"),
        ({"model_type": "qwen3", "layer_types": ["a"], "num_hidden_layers": 1}, "entries must be in"),
        ({"model_type": "llama", "rope_parameters": {"rope_type": "yarn"}}, "Missing required keys"),
        ({"model_type": "llama", "hidden_size": 100, "num_attention_heads": 3}, "not a multiple"),
    ],
)
def test_fields_that_the_class_refuses_are_refused_in_words(tmp_path, fields, words):
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    write(tmp_path, **fields)
    with pytest.raises((ValueError, KeyError, StrictDataclassError)):
        AutoConfig.from_pretrained(tmp_path)
    with pytest.raises(KunportError) as caught:
        load_config(locate(tmp_path))
    assert words in caught.value.problem


ODD = [
    ("rope_parameters", 3),
    ("rope_parameters", {"a": {}}),
    ("rope_scaling", "x"),
    ("rope_scaling", [[]]),
    ("head_dim", {}),
]
ODD += [
    ("vocab_size", None),
    ("layer_types", "x"),
    ("layer_types", {}),
    ("dtype", []),
    ("dtype", "x"),
    ("id2label", [1]),
]
ODD += [
    ("rope_theta", "x"),
    ("per_layer_config", 3),
    ("per_layer_config", {"9": {"head_dim": 1}}),
    ("model_type", "llama"),
]


@pytest.mark.parametrize(("name", "value"), ODD)
def test_a_field_of_any_type_is_read_or_refused(tmp_path, name, value):
    target = locate(write(tmp_path, **{"model_type": "llama", name: value}))
    try:
        outcome = load_config(target)["model_type"]
    except KunportError as error:
        outcome = error.cure
    assert outcome in ("llama", "Correct it in config.json.")


CONFIGURATION = """
from transformers import PretrainedConfig

class MineConfig(PretrainedConfig):
    model_type = "mine"
    attribute_map = {"num_hidden_layers": "depth"}

    def __init__(self, depth=4, width=64, heads=None, **kwargs):
        self.depth = depth
        self.width = width
        self.heads = heads or width // 16
        EXTRA
        super().__init__(**kwargs)

    @property
    def inner(self):
        return 4 * self.width
"""


def custom(folder, extra="", **fields):
    (folder / "configuration_mine.py").write_text(CONFIGURATION.replace("EXTRA", extra))
    (folder / "modeling_mine.py").write_text("class MineForCausalLM:\n    config_class = MineConfig\n")
    auto = {"AutoConfig": "configuration_mine.MineConfig", "AutoModelForCausalLM": "modeling_mine.MineForCausalLM"}
    return write(folder, model_type="mine", auto_map=auto, **fields)


def test_a_class_with_a_constructor_of_its_own_is_run(tmp_path):
    from transformers import AutoConfig

    folder = custom(tmp_path, depth=2, num_hidden_layers=3, torch_dtype="bfloat16", extra_field=[1])
    real = held(AutoConfig.from_pretrained(folder, trust_remote_code=True))
    assert typed(load_config(locate(folder))) == typed(real)
    assert (real["depth"], real["heads"]) == (3, 4)


def test_what_a_constructor_that_is_not_understood_may_set_is_opaque(tmp_path):
    config = load_config(locate(custom(tmp_path, "self.heads = unheard_of.heads(width)", depth=2, width=32)))
    assert isinstance(config["heads"], Opaque)
    assert "MineConfig was not understood" in config["heads"].reason
    assert isinstance(config["depth"], Opaque)


def test_a_dataclass_that_is_no_pretrained_configuration_is_read(tmp_path):
    folder = custom(tmp_path, width=32)
    (folder / "configuration_mine.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass\nclass MineConfig:\n    width: int = 64\n    depth: int = 4\n"
    )
    write(folder, architectures=["MineForCausalLM"], width=32)
    (folder / "modeling_mine.py").write_text("class MineForCausalLM:\n    config_class = MineConfig\n")
    config = load_config(locate(folder))
    assert (config["width"], config["depth"]) == (32, 4)


def test_a_model_without_a_configuration_class_has_the_raw_fields(tmp_path):
    (tmp_path / "m.py").write_text("class MineForCausalLM: pass\n")
    assert load_config(locate(write(tmp_path, architectures=["MineForCausalLM"], width=3)))["width"] == 3


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("class MineConfig(\n", "is not valid Python"),
        (
            "import unheard_of\n\n@unheard_of.wrap\nclass MineConfig:\n    pass\n",
            "wrapped by a decorator that is not known",
        ),
        ("class MineConfig(undefined.Base):\n    pass\n", "cannot be read"),
    ],
)
def test_a_class_that_cannot_be_read_is_named(tmp_path, source, words):
    folder = custom(tmp_path)
    (folder / "configuration_mine.py").write_text(source)
    with pytest.raises(KunportError, match=words):
        load_config(locate(folder))


def test_reading_does_not_change_the_target(tmp_path):
    target = locate(write(tmp_path, model_type="llama", rope_parameters={"rope_theta": 1.0}))
    load_config(target)
    assert target.raw_config["rope_parameters"] == {"rope_theta": 1.0}
