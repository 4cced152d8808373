import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport.adapter_folder import GENERATED, write_adapter
from kunport.adapter_merge import merge_adapter, merge_texts
from kunport.errors import KunportError

MODEL = "".join(f"line {number}\n" for number in range(20))
LINES = st.lists(st.sampled_from([f"{word}\n" for word in "abcdef"]), max_size=8)


def adapter(model=MODEL, **others):
    files = {"model.py": model, "README.md": "how\n"} | others
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    return files | {"adapter.json": json.dumps({"architecture": "A", "files": digests})}


@pytest.fixture
def folder(tmp_path):
    return write_adapter(adapter(), tmp_path / "llama")


def edit(folder, old, new, name="model.py"):
    path = folder / name
    path.write_text(path.read_text().replace(old, new))


def test_edits_stay_where_something_else_is_generated_now(folder):
    edit(folder, "line 3\n", "line 3, mine\n")
    (folder / "notes.md").write_text("mine")
    (folder / "report.json").write_text("{}")
    merge = merge_adapter(adapter(MODEL.replace("line 15\n", "line 15, new\n")), folder)
    expected = MODEL.replace("line 3\n", "line 3, mine\n").replace("line 15\n", "line 15, new\n")
    assert (folder / "model.py").read_text() == expected
    assert (folder / "notes.md").read_text() == "mine"
    assert not (folder / "report.json").exists()
    assert (merge.kept, dict(merge.conflicts)) == (("model.py",), {})


def test_it_can_be_done_again_and_again(folder):
    edit(folder, "line 3\n", "line 3, mine\n")
    for version in range(3):
        merge = merge_adapter(adapter(MODEL.replace("line 15\n", f"line 15, version {version}\n")), folder)
        assert not merge.conflicts
    assert "line 3, mine" in (folder / "model.py").read_text()
    assert "line 15, version 2" in (folder / "model.py").read_text()


def test_a_conflict_is_marked_with_all_three_and_reported(folder):
    edit(folder, "line 3\n", "line 3, mine\n")
    merge = merge_adapter(adapter(MODEL.replace("line 3\n", "line 3, new\n")), folder)
    assert dict(merge.conflicts) == {"model.py": 1}
    marked = (
        "<<<<<<< edited\nline 3, mine\n||||||| generated before\nline 3\n=======\nline 3, new\n>>>>>>> generated now\n"
    )
    assert marked in (folder / "model.py").read_text()


def test_what_one_side_removed_and_the_other_changed_is_there_and_reported(folder):
    (folder / "README.md").unlink()
    merge = merge_adapter(adapter() | {"README.md": "how, anew\n"}, folder)
    assert (folder / "README.md").read_text() == "how, anew\n"
    assert dict(merge.conflicts) == {"README.md": 0}


def test_what_a_user_removed_stays_removed(folder):
    (folder / "README.md").unlink()
    merge = merge_adapter(adapter(MODEL + "more\n"), folder)
    assert not (folder / "README.md").exists()
    assert not merge.conflicts


def test_a_file_that_is_generated_no_more_goes_unless_it_was_edited(tmp_path):
    for edited in (False, True):
        folder = write_adapter(adapter(**{"old.py": "old\n"}), tmp_path / str(edited))
        edit(folder, "line 3\n", "line 3, mine\n")
        if edited:
            edit(folder, "old", "old, mine", "old.py")
        merge = merge_adapter(adapter(), folder)
        assert (folder / "old.py").exists() == edited
        assert dict(merge.conflicts) == ({"old.py": 0} if edited else {})


def test_an_unedited_adapter_is_replaced(folder):
    merge_adapter(adapter("other\n"), folder)
    assert (folder / "model.py").read_text() == "other\n"


def edit_manifest(folder):
    edit(folder, '"A"', '"B"', "adapter.json")


def lose_what_was_generated(folder):
    edit(folder, "line 3\n", "line 3, mine\n")
    (folder / GENERATED / "model.py").unlink()


def change_what_was_generated(folder):
    edit(folder, "line 3\n", "line 3, mine\n")
    (folder / GENERATED / "model.py").write_text("else")


def write_other_bytes(folder):
    (folder / "model.py").write_bytes(b"\xff\xfe")


@pytest.mark.parametrize(
    "spoil", [edit_manifest, lose_what_was_generated, change_what_was_generated, write_other_bytes]
)
def test_where_it_cannot_tell_it_changes_nothing(folder, spoil):
    spoil(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(KunportError):
        merge_adapter(adapter("other\n"), folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "thesis.md").write_text("mine")
    with pytest.raises(KunportError, match="did not write"):
        merge_adapter(adapter(), tmp_path / "llama")


def test_without_git_it_says_so(folder, monkeypatch):
    edit(folder, "line 3\n", "line 3, mine\n")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(KunportError, match="git, which is not installed"):
        merge_adapter(adapter(MODEL + "more\n"), folder)


@settings(max_examples=60, deadline=None)
@given(base=LINES, mine=LINES, now=LINES)
def test_nothing_that_either_side_wrote_is_lost(base, mine, now):
    text, places = merge_texts("".join(base), "".join(mine), "".join(now))
    lines = text.splitlines(keepends=True)
    for side in (mine, now):
        for line in set(side):
            added = side.count(line) - base.count(line)
            if added > 0:
                assert lines.count(line) >= added
    if mine == base:
        assert (text, places) == ("".join(now), 0)
    if now == base:
        assert (text, places) == ("".join(mine), 0)


def test_the_command_reports_conflicts(tmp_path, capsys):
    from kunport.cli.command import main

    import kunport

    arguments = ["generate", "adapters", "olmo2", "--output", str(tmp_path)]
    assert main(arguments) == 0
    model = tmp_path / "olmo2" / "olmo2.py"
    model.write_text(model.read_text() + "# mine\n")
    assert main(arguments) == 2
    assert "merge the edits with --merge" in capsys.readouterr().err
    assert main([*arguments, "--merge"]) == 0
    assert "Your edits are in olmo2.py." in capsys.readouterr().out
    other = kunport.analyze("olmo2", config={"attention_bias": True})
    model.write_text(
        model.read_text().replace("self.o_proj = RowParallelLinear(", "self.o_proj = RowParallelLinear(  # mine")
    )
    merge = kunport.merge_adapter(other, tmp_path)
    assert merge.folder == tmp_path / "olmo2"
    assert "# mine" in model.read_text()
