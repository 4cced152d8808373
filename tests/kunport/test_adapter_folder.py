import hashlib
import json

import pytest
from kunport.adapter_folder import write_adapter
from kunport.errors import KunportError

MODEL = "class Model: ...\n"


def adapter(model=MODEL):
    files = {
        "model.py": hashlib.sha256(model.encode()).hexdigest(),
        "tests/test_model.py": hashlib.sha256(b"").hexdigest(),
    }
    return {
        "model.py": model,
        "tests/test_model.py": "",
        "adapter.json": json.dumps({"architecture": "A", "files": files}),
    }


def edit_model(folder):
    (folder / "model.py").write_text(MODEL + "# mine\n")


def edit_manifest(folder):
    path = folder / "adapter.json"
    path.write_text(path.read_text().replace('"A"', '"B"'))


def break_manifest(folder):
    (folder / "adapter.json").write_text("{")


def empty_manifest(folder):
    (folder / "adapter.json").write_text("[]")


def add_file(folder):
    (folder / "notes.md").write_text("mine")


def lose_manifest(folder):
    (folder / "adapter.json").unlink()


@pytest.mark.parametrize("edit", [edit_model, edit_manifest, break_manifest, empty_manifest, add_file, lose_manifest])
def test_what_a_user_wrote_is_never_overwritten(tmp_path, edit):
    folder = write_adapter(adapter(), tmp_path / "llama")
    edit(folder)
    before = {path: path.read_text() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(KunportError, match=r"(edited|did not write) .*Move it away"):
        write_adapter(adapter("class Other: ...\n"), folder)
    assert {path: path.read_text() for path in folder.rglob("*") if path.is_file()} == before


def test_an_unedited_adapter_is_replaced_with_its_reports_and_by_products(tmp_path):
    folder = write_adapter(adapter(), tmp_path / "llama")
    (folder / "report.json").write_text("{}")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/model.pyc").write_text("")
    write_adapter(adapter("class Other: ...\n"), folder)
    assert (folder / "model.py").read_text() == "class Other: ...\n"
    assert sorted(path.name for path in folder.iterdir()) == [".generated", "adapter.json", "model.py", "tests"]


def test_a_deleted_file_comes_back(tmp_path):
    folder = write_adapter(adapter(), tmp_path / "llama")
    (folder / "model.py").unlink()
    assert (write_adapter(adapter(), folder) / "model.py").read_text() == MODEL


def test_the_same_adapter_is_the_same_bytes(tmp_path):
    first, second = (write_adapter(adapter(), tmp_path / name) for name in ("one", "two"))
    assert all(
        (second / path.relative_to(first)).read_bytes() == path.read_bytes()
        for path in first.rglob("*")
        if path.is_file()
    )


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "llama").write_text("")
    with pytest.raises(KunportError, match=r"llama is a file.*--output"):
        write_adapter(adapter(), tmp_path / "llama")
