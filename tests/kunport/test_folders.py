import pytest
from kunport.errors import KunportError
from kunport.folders import replaced_folder


def test_a_folder_appears_when_the_block_ends(tmp_path):
    with replaced_folder(tmp_path / "deep/out") as folder:
        (folder / "a").write_text("new")
        assert not (tmp_path / "deep/out").exists()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]
    assert (tmp_path / "deep/out/a").read_text() == "new"


def test_what_stood_there_is_replaced_whole(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old").write_text("old")
    with replaced_folder(tmp_path / "out") as folder:
        (folder / "new").write_text("new")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["new"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_everything_as_it_was(tmp_path, error):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old").write_text("old")

    def write_and_fail():
        with replaced_folder(tmp_path / "out") as folder:
            (folder / "new").write_text("new")
            raise error

    with pytest.raises(error):
        write_and_fail()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "old"]


def test_a_file_where_a_parent_should_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(KunportError, match=r"Cannot write .*file/out.*--output"),
        replaced_folder(tmp_path / "file/out"),
    ):
        pass


def test_a_full_disk_inside_the_block_is_an_unwritable_folder(tmp_path):
    with pytest.raises(KunportError, match="No space left"), replaced_folder(tmp_path / "out"):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_replaced_keeps_what_it_had(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old").write_text("old")
    from pathlib import Path

    rename = Path.rename

    def refuse_new(self, target):
        if self.name == "new":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse_new)
    with pytest.raises(KunportError, match="Input/output error"), replaced_folder(tmp_path / "out"):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "old"]
