from __future__ import annotations

from pathlib import Path

from kunport.validation import provenance


def test_a_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("two")
    before = provenance.folder_digest(tmp_path)
    assert before == provenance.digest(tmp_path, ["b", "a", "a"])
    assert len(before) == 64
    (tmp_path / ".hidden").write_text("not counted")
    (tmp_path / "folder").mkdir()
    assert provenance.folder_digest(tmp_path) == before
    (tmp_path / "b").write_text("twO")
    changed = provenance.folder_digest(tmp_path)
    assert changed != before
    (tmp_path / "b").rename(tmp_path / "c")
    assert provenance.folder_digest(tmp_path) != changed


def test_a_file_that_is_missing_is_not_an_empty_digest(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    assert provenance.digest(tmp_path, ["a", "gone"]) != provenance.digest(tmp_path, ["a"])


def test_machine_and_versions_are_known() -> None:
    assert set(provenance.versions()) == {"kunport", "python"}
    assert all(provenance.hardware().values())
