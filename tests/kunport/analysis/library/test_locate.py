"""Naming a model: by class, type, file and folder, and every way that can go wrong."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport.analysis.library import locate
from kunport.analysis.library.installed import installation
from kunport.errors import KunportError

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


def write_config(folder, **fields):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields))
    return folder


@pytest.fixture
def custom(tmp_path):
    """A checkpoint with code of its own."""
    folder = write_config(
        tmp_path / "custom",
        architectures=["FooForCausalLM"],
        model_type="foo",
        auto_map={"AutoModelForCausalLM": "modeling_foo.FooForCausalLM", "AutoConfig": "configuration_foo.FooConfig"},
        hidden_size=8,
    )
    (folder / "modeling_foo.py").write_text(
        "from .configuration_foo import FooConfig\n\n\nclass FooPreTrained:\n    config_class = FooConfig\n\n\n"
        "class FooForCausalLM(FooPreTrained):\n    pass\n"
    )
    (folder / "configuration_foo.py").write_text("class FooConfig:\n    hidden_size = 4\n")
    return folder


@pytest.mark.parametrize("model_type", SLICE)
def test_a_model_type_and_its_class_name_the_same_target(model_type):
    from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING

    target = locate(model_type)
    config_class = CONFIG_MAPPING[model_type]
    model_class = MODEL_FOR_CAUSAL_LM_MAPPING[config_class]
    assert target == locate(model_class.__name__) == locate(target.modeling)
    assert (target.architecture, target.module) == (model_class.__name__, model_class.__module__)
    assert (target.config_class, target.model_type) == (config_class.__name__, model_type)
    assert target.root / (config_class.__module__.replace(".", "/") + ".py") == target.config_file
    assert (target.raw_config, target.checkpoint, target.custom) == ({}, None, False)


def test_the_tables_are_those_that_transformers_has_when_imported():
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES, model_type_to_module_name
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    library = installation()
    assert library.configs == dict(CONFIG_MAPPING_NAMES)
    assert library.causal == dict(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    assert all(library.folder(name).name == model_type_to_module_name(name) for name in CONFIG_MAPPING_NAMES)


def test_every_model_type_is_located_or_refused_in_words():
    for model_type in installation().configs:
        try:
            problem, file = "", locate(model_type).modeling
        except KunportError as error:
            problem, file = error.problem, None
        assert "not a text decoder" in problem or (file and file.is_file()), model_type


@pytest.mark.parametrize(
    ("name", "model_type"),
    [("gpt-sw3", "gpt2"), ("GPT2LMHeadModel", "gpt2"), ("Llama4ForCausalLM", "llama4_text")],
)
def test_an_alias_is_the_model_type_that_its_configuration_names(name, model_type):
    assert locate(name).model_type == model_type


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bert", "an encoder (a masked language model)"),
        ("bart", "an encoder-decoder"),
        ("whisper", "an encoder-decoder for speech"),
        ("llama4", "multimodal"),
        ("gemma3", "Its text decoder alone is Gemma3ForCausalLM (gemma3_text)."),
        ("Gemma3ForConditionalGeneration", "multimodal"),
        ("moshi", "a composite model (audio_encoder_config)"),
        ("clip", "a model without a language-modeling head"),
        ("LlamaModel", "a base model without a head"),
        ("LlamaForSequenceClassification", "for sequence classification"),
        ("Lama", "Did you mean llama"),
        ("Olmo3xForCausalLM", "Did you mean Olmo3ForCausalLM"),
        ("qqqqqqqq", "Give a checkpoint folder"),
        ("meta-llama/Llama-3.1-8B", "hf download meta-llama/Llama-3.1-8B"),
        ("./missing", "There is no file or folder ./missing."),
        ("missing.py", "There is no file or folder missing.py."),
        ("", "No model is named."),
    ],
)
def test_what_is_no_text_decoder_is_refused_with_a_cure(name, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KunportError) as caught:
        locate(name)
    assert words in str(caught.value)


def test_a_folder_without_a_configuration_does_not_hide_a_model_type(tmp_path, monkeypatch):
    (tmp_path / "olmo2").mkdir()
    monkeypatch.chdir(tmp_path)
    assert locate("olmo2").architecture == "Olmo2ForCausalLM"
    write_config(tmp_path / "olmo2", model_type="llama")
    assert locate("olmo2").architecture == "LlamaForCausalLM"


def test_a_checkpoint_folder_gives_its_configuration(tmp_path):
    folder = write_config(
        tmp_path / "c", model_type="olmo2", architectures=["Olmo2ForCausalLM"], a={"__float__": "Infinity"}
    )
    target = locate(folder)
    assert (target.architecture, target.checkpoint) == ("Olmo2ForCausalLM", folder)
    assert target.raw_config["a"] == float("inf")


def test_a_folder_without_architectures_is_known_by_its_model_type(tmp_path):
    assert locate(write_config(tmp_path / "c", model_type="qwen3")).architecture == "Qwen3ForCausalLM"


def test_a_mistral_with_layer_types_is_a_ministral_as_for_autoconfig(tmp_path):
    folder = write_config(
        tmp_path / "c", model_type="mistral", architectures=["MistralForCausalLM"], layer_types=["full_attention"]
    )
    assert locate(folder).architecture == "MinistralForCausalLM"


def test_a_text_decoder_under_a_composite_configuration_takes_the_text_part(tmp_path):
    folder = write_config(
        tmp_path / "c", model_type="qwen3_5", architectures=["Qwen3_5ForCausalLM"], text_config={"hidden_size": 64}
    )
    target = locate(folder)
    assert (target.model_type, target.raw_config) == ("qwen3_5_text", {"hidden_size": 64})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}, "for sequence classification"),
        ({"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}, "image text to text"),
        ({"model_type": "vit"}, "without a language-modeling head"),
        ({"model_type": "olmo9", "architectures": ["Olmo9ForCausalLM"]}, "which Transformers 5.19.0 does not have"),
        ({}, "names no model"),
        (
            {"architectures": "LlamaForCausalLM"},
            "architectures of config.json must be a list of class names but is a string",
        ),
        ({"architectures": [3]}, "must be a list of class names"),
        ({"model_type": 3}, "model_type of config.json must be a string but is a number"),
        ({"model_type": ["llama"]}, "must be a string but is a list"),
        ({"model_type": "foo", "auto_map": []}, "auto_map of config.json must be an object but is a list"),
        ({"model_type": "foo", "auto_map": {"AutoModelForCausalLM": 3}}, "which Transformers 5.19.0 does not have"),
        ({"model_type": "foo", "auto_map": {"AutoModelForCausalLM": "../x.Foo"}}, "which is not FILE.CLASS"),
        ({"model_type": "foo", "auto_map": {"AutoModelForCausalLM": "modeling_foo.Foo"}}, "does not have"),
        ({"model_type": "foo", "auto_map": {"AutoModelForCausalLM": f"m{'9' * 5000}.Foo"}}, "does not have"),
        (
            {"model_type": "foo", "auto_map": {"AutoModelForCausalLM": "a/b--modeling_foo.Foo"}},
            "code of the repository a/b. Copy that code into the folder and write 'modeling_foo.Foo'",
        ),
        ({"configuration_files": ["config.5.0.0.json"]}, "other versions of Transformers"),
    ],
)
def test_a_configuration_that_names_no_text_decoder_is_refused(tmp_path, fields, words):
    with pytest.raises(KunportError) as caught:
        locate(write_config(tmp_path / "c", **fields))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[1]", "not a JSON object but a list"),
        (b"null", "but null"),
    ],
)
def test_a_configuration_that_is_no_json_object_is_refused(tmp_path, content, words):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(KunportError, match=words):
        locate(tmp_path)


def test_deep_nesting_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(KunportError, match="nests too deeply"):
        locate(tmp_path)


def test_a_folder_without_a_configuration_is_refused(tmp_path):
    with pytest.raises(KunportError, match=r"has no config\.json"):
        locate(tmp_path)


def test_custom_code_is_found_by_auto_map(custom):
    target = locate(custom)
    assert (target.architecture, target.model_type, target.custom) == ("FooForCausalLM", "foo", True)
    assert (target.modeling, target.module, target.root) == (custom / "modeling_foo.py", "modeling_foo", custom)
    assert (target.config_class, target.config_file) == ("FooConfig", custom / "configuration_foo.py")
    assert target.checkpoint == custom


def test_custom_code_is_found_without_auto_map(custom):
    write_config(custom, architectures=["FooForCausalLM"])
    target = locate(custom)
    assert (target.modeling, target.config_file) == (custom / "modeling_foo.py", custom / "configuration_foo.py")


def test_a_modeling_file_beside_a_configuration_is_that_checkpoint(custom):
    target = locate(custom / "modeling_foo.py")
    assert target == locate(custom)


def test_a_lone_modeling_file_may_use_a_configuration_of_transformers(tmp_path):
    file = tmp_path / "modeling_bar.py"
    file.write_text("class BarForCausalLM(X):\n    config: LlamaConfig\n")
    target = locate(file)
    assert (target.config_class, target.checkpoint, target.raw_config) == ("LlamaConfig", None, {})
    assert target.config_file == locate("llama").config_file


def test_custom_code_whose_class_is_missing_is_refused(custom):
    (custom / "modeling_foo.py").write_text("class Other:\n    pass\n")
    with pytest.raises(KunportError, match=r"which .* does not define"):
        locate(custom)


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "FooForCausalLM"])
def test_transformers_own_code_comes_before_the_folders_class_of_the_same_name(custom, name):
    (custom / "modeling_foo.py").write_text(f"class {name}:\n    pass\n")
    auto = {"AutoModelForCausalLM": f"modeling_foo.{name}"}
    write_config(custom, model_type="llama", auto_map=auto, architectures=["X"])
    target = locate(custom)
    assert (target.architecture, target.custom) == (name, name == "FooForCausalLM")


TWO_MODELS = """
import torch.nn as nn
class Args: pass
class Block(nn.Module): pass
class Small(nn.Module):
    def __init__(self, args: Args):
        self.emb, self.block = nn.Embedding(3, 3), Block()
class Large(Small):
    def __init__(self, config: "Args" = None):
        self.blocks = [Block()]
class Probe(nn.Module):
    def __init__(self, dim): ...
"""


def test_a_class_of_a_file_can_be_named(tmp_path):
    (tmp_path / "m.py").write_text(TWO_MODELS)
    target = locate(f"{tmp_path / 'm.py'}:Small")
    assert (target.architecture, target.config_class) == ("Small", "Args")
    assert (
        locate(tmp_path / "m.py").architecture == "Large"
    )  # Small is a part of it: what it is made of comes from there
    with pytest.raises(KunportError, match="defines no class Medium"):
        locate(f"{tmp_path / 'm.py'}:Medium")


@pytest.mark.parametrize("other", ["aa.py", "zz.py", "modeling_other.py"])
def test_a_file_that_defines_its_configuration_class_takes_no_other_of_that_name(tmp_path, other):
    text = "class ToyConfig: pass\nclass ToyForCausalLM:\n    config_class = ToyConfig\n    def forward(self, input_ids): ...\n"
    (tmp_path / "toy.py").write_text(text)
    (tmp_path / other).write_text("class ToyConfig: pass\n")
    assert locate(str(tmp_path / "toy.py")).config_file == tmp_path / "toy.py"


def test_a_folder_whose_configuration_names_no_class_is_read_for_its_model(tmp_path):
    (tmp_path / "net.py").write_text(TWO_MODELS)
    (tmp_path / "config.json").write_text('{"dim": 3}')
    assert locate(tmp_path).architecture == "Large"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", "defines no class for causal language modeling."),
        ("class Foo:\n    pass\n", r"\(it has Foo\)"),
        ("class AForCausalLM: pass\nclass BForCausalLM: pass\n", "several models"),
    ],
)
def test_a_file_without_one_model_is_refused(tmp_path, text, words):
    (tmp_path / "m.py").write_text(text)
    with pytest.raises(KunportError, match=words):
        locate(tmp_path / "m.py")


def test_a_file_that_is_not_python_is_refused(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(KunportError, match="not a Python file"):
        locate(tmp_path / "weights.bin")


def test_nothing_is_imported():
    import subprocess
    import sys

    code = (
        "import sys; from kunport.analysis.library import locate; locate('olmo2'); "
        "print({'transformers', 'torch', 'vllm', 'libcst', 'numpy'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


@given(name=st.text(min_size=1) | st.text("./~x", min_size=1).map(lambda prefix: prefix + "x" * 300))
def test_any_name_is_located_or_refused(name):
    try:
        locate(name)
    except KunportError:
        return


@pytest.mark.parametrize("name", ["my.modeling.py", "a b.py", ".py.py"])
def test_a_file_whose_name_is_no_module_is_refused_for_that(tmp_path, name):
    (tmp_path / name).write_text("class AForCausalLM: pass\n")
    with pytest.raises(KunportError, match="name of a Python module"):
        locate(tmp_path / name)


def test_a_byte_order_mark_changes_nothing(tmp_path):
    text = "class AForCausalLM: pass\n"
    for name, mark in (("a", b""), ("b", b"\xef\xbb\xbf")):
        (tmp_path / f"{name}.py").write_bytes(mark + text.encode())
    assert locate(tmp_path / "b.py").architecture == locate(tmp_path / "a.py").architecture == "AForCausalLM"


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_what_is_neither_file_nor_folder_is_refused_for_that(tmp_path, make):
    make(tmp_path / "m.py")
    with pytest.raises(KunportError, match="neither a file nor a folder"):
        locate(tmp_path / "m.py")
