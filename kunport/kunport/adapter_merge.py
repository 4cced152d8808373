"""Generates an adapter anew under a user's edits: a three-way merge of what was generated, what it became, and what is
generated now.

Nothing that a user wrote is lost. Where both sides changed the same lines, both stand in the file between the marks
that git uses, with what was generated before; such a file does not import until somebody has decided.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kunport.adapter_folder import (
    GENERATED,
    MANIFEST,
    changed_files,
    generated_texts,
    holds_adapter,
    lasting_files,
    removed_files,
    write_adapter,
    write_files,
)
from kunport.errors import KunportError
from kunport.folders import replaced_folder

_LABELS = ("edited", "generated before", "generated now")


@dataclass(frozen=True, slots=True)
class Merge:
    """What became of the files of an edited adapter.

    Attributes:
        folder: the adapter's.
        kept: files in which edits stand, merged with what is generated now.
        conflicts: file -> how many places somebody has to decide; 0 for a file that one side removed and the other
            changed, which is there.
    """

    folder: Path
    kept: tuple[str, ...] = ()
    conflicts: Mapping[str, int] = field(default_factory=dict)


def merge_adapter(files: Mapping[str, str], folder: Path) -> Merge:
    """Write the files of an adapter to ``folder``, with the edits of the adapter that stands there.

    Args:
        files: relative file name -> text, as `kunport.adapter_folder.write_adapter` takes them.
        folder: the adapter's own. Files that kunport never wrote stay as they are; reports of the old adapter go.

    Raises:
        KunportError: the folder holds no adapter, its manifest was edited, what was generated is not kept in it, git is
            missing, or it cannot be written.
    """
    edited = [*changed_files(folder), *removed_files(folder)] if folder.exists() else []
    if not edited:
        return Merge(write_adapter(files, folder))
    if not holds_adapter(folder):
        raise KunportError(f"{folder} holds files that kunport did not write.", "Choose another place with --output.")
    if MANIFEST in edited:
        raise KunportError(f"{folder / MANIFEST} was edited, and is not merged.", "Put it back as it was generated.")
    before = generated_texts(folder)
    if before is None:
        raise KunportError(
            f"{folder} no longer keeps what was generated ({GENERATED}), without which edits cannot be told apart.",
            "Move the folder away, generate the adapter, and edit that.",
        )
    merged, conflicts = _merge_all(before, folder, files)
    with replaced_folder(folder) as new:
        for name, path in lasting_files(folder):
            if name not in before and name not in files:
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, new / name)
        write_files(files, new)
        for file, text in merged.items():
            _put(new / file, text)
    kept = tuple(name for name, text in merged.items() if text is not None and text != files.get(name))
    return Merge(folder, kept, conflicts)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise KunportError(f"{path} is not UTF-8.", "Save it as UTF-8, and merge again.") from None


def _put(path: Path, text: str | None) -> None:
    """A file's text; None for a file that is not to be there."""
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _merge_all(
    before: Mapping[str, str], folder: Path, files: Mapping[str, str]
) -> tuple[dict[str, str | None], dict[str, int]]:
    """Each generated file's new text, and the conflicts."""
    merged: dict[str, str | None] = {}
    conflicts: dict[str, int] = {}
    for name in sorted({*before, *files} - {MANIFEST}):
        path = folder / name
        base, now = before.get(name), files.get(name)
        mine = _text(path) if path.is_file() else None
        if mine in (base, now):
            merged[name] = now
        elif base == now:
            merged[name] = mine
        elif mine is None or now is None:  # removed by one side, changed by the other
            merged[name] = now if mine is None else mine
            conflicts[name] = 0
        else:
            merged[name], places = merge_texts(base or "", mine, now)
            if places:
                conflicts[name] = places
    return merged, conflicts


def merge_texts(base: str, mine: str, now: str) -> tuple[str, int]:
    """Three versions of a text as one, and the number of places where both sides differ from ``base`` and each other.

    Raises:
        KunportError: git, which does it, is missing.
    """
    with tempfile.TemporaryDirectory(prefix="kunport-") as name:
        paths = [Path(name, str(number)) for number in range(3)]
        for path, text in zip(paths, (mine, base, now), strict=True):
            path.write_text(text, encoding="utf-8", newline="")
        labels = [each for label in _LABELS for each in ("-L", label)]
        try:
            done = subprocess.run(
                ["git", "merge-file", "-p", "--diff3", *labels, *map(str, paths)], capture_output=True, check=False
            )
        except FileNotFoundError:
            raise KunportError("Edits are merged by git, which is not installed.", "Install git.") from None
    if done.returncode > 127 or done.returncode < 0:
        raise KunportError(f"git cannot merge these files: {done.stderr.decode().strip()}.", "Merge them by hand.")
    return done.stdout.decode("utf-8"), done.returncode
