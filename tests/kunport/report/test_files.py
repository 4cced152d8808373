"""A report on disk is whole, or it is the one that was there before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kunport.errors import KunportError
from kunport.report import files
from kunport.report.files import write_report
from sample_reports import sample_report


def test_both_files_are_written_and_written_over(tmp_path: Path) -> None:
    page, data = write_report(tmp_path / "new/folder", sample_report())
    assert page.read_text().endswith("</html>\n") or page.read_text().endswith("</html>")
    assert json.loads(data.read_text())["verdict"] == "pass"
    failing = sample_report()
    failing.reasons = ["It is wrong."]
    write_report(tmp_path / "new/folder", failing)
    assert json.loads(data.read_text())["verdict"] == "fail"
    assert sorted(path.name for path in page.parent.iterdir()) == ["report.html", "report.json"]
    assert data.stat().st_mode & 0o777 == 0o644


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.json"
    files.replace(target, "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.replace(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(KunportError, match="cannot be written"):
        write_report(tmp_path / "file" / "report", sample_report())


def test_killed_at_any_moment_the_file_is_old_or_new(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    writer = f"""
from pathlib import Path
from kunport.report.files import replace
turn = 0
while True:
    replace(Path({str(target)!r}), str(turn % 10) * 2_000_000)
    turn += 1
    print(turn, flush=True)
"""
    for pause in (0.0, 0.003, 0.011):
        with subprocess.Popen([sys.executable, "-c", writer], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()  # the first one is there
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
        text = target.read_text()
        assert len(text) == 2_000_000
        assert len(set(text)) == 1
