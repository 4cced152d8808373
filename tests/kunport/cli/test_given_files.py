"""Files as editors and systems leave them: read where Python reads them, else refused in a line that says why."""

from pathlib import Path

import pytest
from kunport.cli import main

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(40, 8), nn.Linear(8, 40, bias=False)

    def forward(self, tokens):
        return self.head(self.words(tokens) ** 3)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "plain.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(
    "written",
    [
        b"\xef\xbb\xbf" + SOURCE.encode(),
        b"# -*- coding: latin-1 -*-\n# \xe9" + SOURCE.encode(),
        SOURCE.replace("\n", "\r\n").encode(),
    ],
    ids=["a byte order mark", "a declared encoding", "ends of lines of two bytes"],
)
def test_a_source_is_read_as_python_reads_it(written: bytes, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(source)]) == 0
    plain = capsys.readouterr().out
    source.write_bytes(written)
    assert main(["analyze", str(source)]) == 0
    read = capsys.readouterr().out
    assert read.splitlines()[0] == plain.splitlines()[0] == "Model (): 0 layers, 640 parameters"


def test_the_same_source_under_another_name_does_not_differ(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = source.with_name("other.py")
    other.write_text(SOURCE)
    assert main(["analyze", str(source), "--against", str(other), "--fail-on", "difference"]) == 0
    assert "No fact differs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["llama", ""], "No model is named"),
        (["/dev/null"], "neither a file nor a folder"),
        (["{source}", "--output", "."], ". is a folder"),
    ],
)
def test_what_names_no_file_is_refused(
    arguments: list[str], words: str, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", *(each.format(source=source) for each in arguments)]) == 2
    assert words in capsys.readouterr().err


def test_facts_that_are_not_known_are_counted_once(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(source), "--fail-on", "opaque"]) == 1
    out, err = capsys.readouterr()
    counted = err.removeprefix("kunport: ").strip()
    assert counted
    assert counted in out
