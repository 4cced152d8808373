import json
import os

import pytest
from kunport_model_adapters.discovery import find_adapters
from kunport_model_adapters.errors import AdapterError


def write(folder, architecture):
    folder.mkdir(parents=True)
    names = {"architecture": architecture, "model_type": "m", "file": "model.py", "class": architecture}
    empty = {"guards": [], "versions": {}, "sources": {}, "files": {}}
    (folder / "adapter.json").write_text(json.dumps({"schema": 1} | names | empty))
    (folder / "model.py").touch()
    return folder


def found(path):
    return [(adapter.folder, adapter.manifest.architecture) for adapter in find_adapters(str(path))]


def test_an_adapter_or_a_folder_of_adapters(tmp_path):
    b, a = write(tmp_path / "all/b", "B"), write(tmp_path / "all/a", "A")
    write(tmp_path / "all/a/below", "Deeper")
    assert found(a) == [(a, "A")]
    assert found(tmp_path / "all") == [(a, "A"), (b, "B")]


def test_several_entries_in_their_order_each_adapter_once(tmp_path):
    b, a = write(tmp_path / "all/b", "B"), write(tmp_path / "all/a", "A")
    (tmp_path / "link").symlink_to(tmp_path / "all")
    path = os.pathsep.join(map(str, [b, "", tmp_path / "all", tmp_path / "link" / "b"]))
    assert found(path) == [(b, "B"), (a, "A")]


def test_a_folder_may_be_relative(tmp_path, monkeypatch):
    a = write(tmp_path / "all/a", "A")
    monkeypatch.chdir(tmp_path)
    assert found("all") == [(a, "A")]


def test_two_adapters_for_one_architecture(tmp_path):
    a, b = write(tmp_path / "x/a", "A"), write(tmp_path / "y/a", "A")
    with pytest.raises(AdapterError) as caught:
        found(f"{a}{os.pathsep}{tmp_path / 'y'}")
    assert str(caught.value) == (
        f"There are two adapters for A, {a} and {b}. Name only one of them in KUNPORT_ADAPTER_PATH."
    )


@pytest.mark.parametrize(
    ("entry", "said"), [("nowhere", "is no folder"), ("file", "is no folder"), ("empty", "holds no")]
)
def test_an_entry_without_an_adapter(tmp_path, entry, said):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(AdapterError, match=f"KUNPORT_ADAPTER_PATH names {tmp_path / entry}, which {said}"):
        found(tmp_path / entry)
