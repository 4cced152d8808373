import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport_model_adapters.errors import AdapterError
from kunport_model_adapters.manifest import SCHEMA, Guard, parse_manifest, read_manifest

GOOD = {
    "schema": 1,
    "architecture": "OlmoForCausalLM",
    "model_type": "olmo",
    "file": "olmo.py",
    "class": "Olmo",
    "guards": [
        {"expression": "config.hidden_act == 'silu'", "outcome": True, "where": "modeling_olmo.py:7"},
        {"expression": "config.clip_qkv", "outcome": None},
    ],
    "versions": {"vllm": "0.32.0"},
    "sources": {"modeling_olmo.py": "00ff"},
    "files": {"olmo.py": "ff00"},
    "findings": ["for other readers"],
}
SCHEMA_TEXT = json.loads(SCHEMA.read_text())


def test_a_manifest_says_what_the_adapter_is():
    manifest = parse_manifest(GOOD)
    assert (manifest.architecture, manifest.class_name, manifest.module) == ("OlmoForCausalLM", "Olmo", "olmo")
    assert manifest.guards == (
        Guard("config.hidden_act == 'silu'", True, "modeling_olmo.py:7"),
        Guard("config.clip_qkv", None),
    )
    assert manifest.versions == {"vllm": "0.32.0"}


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA_TEXT)
    jsonschema.validate(GOOD, SCHEMA_TEXT)


@pytest.mark.parametrize("key", [key for key in GOOD if key != "findings"])
@pytest.mark.parametrize("change", ["missing", "number", "list"])
def test_every_field_that_is_wrong_is_named(key, change):
    data = dict(GOOD)
    if change == "missing":
        del data[key]
    else:
        data[key] = 7 if change == "number" else [7]
    with pytest.raises(ValueError, match="guard" if key == "guards" else f"'{key}'"):
        parse_manifest(data)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA_TEXT)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | st.sampled_from(["", "a", "olmo.py"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["expression", "outcome"]), inner),
    max_leaves=4,
)
FILES = ["olmo.py", "o1_.py", "olmo", "../olmo.py", "a/b.py", "1.py", ".py", "olmo-2.py", "ölmo.py", "class.py"]
NAMES = ["Olmo", "_O1", "", "Olmo2.x", "1O", "O-2", "Ö", "a b"]


@given(st.data())
def test_reader_and_schema_agree(data):
    changed = dict(GOOD)
    key = data.draw(st.sampled_from(sorted(GOOD)))
    choices = {"file": st.sampled_from(FILES), "class": st.sampled_from(NAMES), "architecture": st.sampled_from(NAMES)}
    guards = st.lists(st.fixed_dictionaries({"expression": VALUES, "outcome": VALUES}, optional={"where": VALUES}))
    choices["guards"] = guards
    changed[key] = data.draw(choices.get(key, VALUES) | VALUES)
    allowed = jsonschema.Draft202012Validator(SCHEMA_TEXT).is_valid(changed)
    try:
        parse_manifest(changed)
    except ValueError:
        assert not allowed
    else:
        assert allowed


def test_a_folder_is_read(tmp_path):
    (tmp_path / "adapter.json").write_text(json.dumps(GOOD))
    (tmp_path / "olmo.py").touch()
    assert read_manifest(tmp_path) == parse_manifest(GOOD)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"{", "is wrong: Expecting property name"),
        (b"\xff", "is wrong: 'utf-8' codec"),
        (b"[]", "is wrong: it is no JSON object"),
        (b"[" * 100_000, "nested too deeply"),
        (json.dumps(GOOD).encode(), "names olmo.py, which is not beside it"),
    ],
)
def test_what_is_wrong_with_a_folder_is_one_sentence(tmp_path, content, said):
    if content is not None:
        (tmp_path / "adapter.json").write_bytes(content)
    with pytest.raises(AdapterError, match=said) as caught:
        read_manifest(tmp_path)
    assert str(tmp_path / "adapter.json") in caught.value.problem
    assert "\n" not in str(caught.value)
    assert caught.value.cure == "Generate the adapter again."
