"""Every shell and Python block of the documentation runs, in order, page by page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A page says in a comment what its examples need: `<!-- examples: engine -->`.
ENGINE = "<!-- examples: engine -->"


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(language, code) for language, code in BLOCK.findall(page.read_text(encoding="utf-8"))]


def parameters() -> list[object]:
    pages = [page for page in PAGES if blocks(page)]
    return [
        pytest.param(
            page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.engine] if ENGINE in page.read_text() else []
        )
        for page in pages
    ]


@pytest.mark.parametrize("page", parameters())
def test_examples_of_a_page_run(page: Path, tmp_path: Path, untraced: dict[str, str]) -> None:
    environment = untraced | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for language, code in blocks(page):
        command = ["bash", "-euo", "pipefail", "-c", code] if language == "sh" else [sys.executable, "-c", code]
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
        assert result.returncode == 0, f"{page.name}:\n{code}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}"


def test_there_are_examples_to_run() -> None:
    assert parameters()
