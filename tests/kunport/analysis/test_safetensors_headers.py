"""Safetensors headers: what real files say, and what broken ones are called."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport.analysis.checkpoint import INDEX, SINGLE, read_checkpoint, read_header
from kunport.errors import KunportError
from safetensors.numpy import save_file

TENSORS = {
    "a.weight": np.zeros((2, 3), np.float32),
    "b": np.zeros((4,), np.int64),
    "empty": np.zeros((0, 5), np.float16),
}


def write(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def sharded(folder):
    save_file({"a": TENSORS["a.weight"]}, folder / "one.safetensors")
    save_file({"b": TENSORS["b"]}, folder / "two.safetensors")
    index = {"metadata": {}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (folder / INDEX).write_text(json.dumps(index))
    return folder


def test_a_single_file_gives_names_dtypes_and_shapes(tmp_path):
    save_file(TENSORS, tmp_path / SINGLE, metadata={"format": "pt"})
    found = read_checkpoint(tmp_path)
    assert {name: (tensor.dtype, tensor.shape) for name, tensor in found.items()} == {
        "a.weight": ("float32", (2, 3)),
        "b": ("int64", (4,)),
        "empty": ("float16", (0, 5)),
    }
    assert found["b"].file == tmp_path / SINGLE


def test_every_dtype_of_the_format_has_torchs_name(tmp_path):
    import torch
    from safetensors.torch import _TYPES, save_file

    tensors = {name: torch.zeros(2, dtype=dtype) for name, dtype in _TYPES.items()}
    save_file(tensors, tmp_path / SINGLE)
    assert {name: getattr(torch, tensor.dtype) for name, tensor in read_checkpoint(tmp_path).items()} == _TYPES


def test_shards_are_read_through_their_index(tmp_path):
    found = read_checkpoint(sharded(tmp_path))
    assert {name: tensor.file.name for name, tensor in found.items()} == {
        "a": "one.safetensors",
        "b": "two.safetensors",
    }


def test_one_file_under_another_name_is_read(tmp_path):
    save_file(TENSORS, tmp_path / "weights.safetensors")
    assert set(read_checkpoint(tmp_path)) == set(TENSORS)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([], "holds no weights"),
        (["pytorch_model.bin"], "pickle"),
        (["a.safetensors", "b.safetensors"], "no model.safetensors.index.json"),
    ],
)
def test_a_folder_without_a_checkpoint_says_what_is_there(tmp_path, files, words):
    for name in files:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(KunportError, match=words):
        read_checkpoint(tmp_path)


def test_a_missing_shard_is_named(tmp_path):
    (sharded(tmp_path) / "two.safetensors").unlink()
    with pytest.raises(KunportError, match=r"lacks two\.safetensors"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (b"{", "not JSON"),
        (b"[]", "no weight_map"),
        (b'{"weight_map": {"a": 3}}', "no weight_map"),
        (b'{"weight_map": {"a": "../one.safetensors"}}', "not a file of the folder"),
        (b'{"weight_map": {"c": "one.safetensors"}}', "it lacks c"),
    ],
)
def test_an_index_that_misleads_is_named(tmp_path, index, words):
    (sharded(tmp_path) / INDEX).write_bytes(index)
    with pytest.raises(KunportError, match=words) as caught:
        read_checkpoint(tmp_path)
    assert "safetensors" in caught.value.problem


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        ({"a": F32}, b"\0" * 4, "truncated"),
        ({"a": F32}, b"\0" * 12, "4 bytes belong to no tensor"),
        ({"a": F32 | {"shape": [3]}}, b"\0" * 8, r"a is \[3\] of F32 but has 8 bytes"),
        ({"a": F32, "b": F32}, b"\0" * 8, "does not begin where"),
        ({"a": F32 | {"dtype": "F3"}}, b"\0" * 8, "unknown dtype 'F3'"),
        ({"a": F32 | {"dtype": ["F32"]}}, b"\0" * 8, "unknown dtype"),
        ({"a": F32 | {"shape": [-2]}}, b"\0" * 8, "not a list of sizes"),
        ({"a": F32 | {"shape": [True, 2]}}, b"\0" * 8, "not a list of sizes"),
        ({"a": F32 | {"data_offsets": [8]}}, b"\0" * 8, "not a range"),
        ({"a": F32 | {"data_offsets": [8, 0]}}, b"\0" * 8, "not a range"),
        ({"a": 3}, b"", "not an object"),
        ([], b"", "not a JSON object"),
        (b"\xff", b"", "not JSON"),
        (b"[" * 50_000, b"", "not JSON"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path, header, data, words):
    with pytest.raises(KunportError, match=words) as caught:
        read_header(write(tmp_path / "x.safetensors", header, data))
    assert "x.safetensors" in caught.value.problem


def test_a_header_length_beyond_the_file_is_a_truncation(tmp_path):
    (tmp_path / "x.safetensors").write_bytes((1 << 60).to_bytes(8, "little"))
    with pytest.raises(KunportError, match="truncated"):
        read_header(tmp_path / "x.safetensors")


def test_a_directory_in_place_of_a_file_is_named(tmp_path):
    with pytest.raises(KunportError, match="cannot be read"):
        read_header(tmp_path)


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    path = tmp_path_factory.mktemp("valid") / SINGLE
    save_file(TENSORS, path)
    return path


@given(length=st.integers(0, 400))
def test_every_truncation_is_an_error_and_never_a_traceback(valid, length):
    whole = valid.read_bytes()
    cut = valid.with_name("cut.safetensors")
    cut.write_bytes(whole[: min(length, len(whole) - 1)])
    with pytest.raises(KunportError):
        read_header(cut)


@settings(max_examples=300)
@given(position=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_changed_byte_never_gives_a_traceback(valid, position, byte):
    content = bytearray(valid.read_bytes())
    content[position % len(content)] = byte
    changed = valid.with_name("changed.safetensors")
    changed.write_bytes(content)
    assert "changed.safetensors" in refusal(changed)


def refusal(path):
    """Why a file is refused, its own name where it is not."""
    try:
        read_header(path)
    except KunportError as error:
        return error.problem
    return path.name


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["F32", "I64", "dtype"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "a", "__metadata__"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(header=JSON, data=st.binary(max_size=16))
def test_any_header_is_read_or_refused(tmp_path_factory, header, data):
    path = tmp_path_factory.mktemp("any") / "x.safetensors"
    assert "x.safetensors" in refusal(write(path, header, data))


@given(content=st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "x.safetensors"
    path.write_bytes(content)
    assert "x.safetensors" in refusal(path)


@pytest.mark.parametrize("name", [SINGLE, "weights.safetensors"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(KunportError):
        read_checkpoint(tmp_path)
