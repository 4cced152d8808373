"""Generated adapters pass the tools that their readers use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kunport

pytestmark = pytest.mark.untraced

ROOT = Path(__file__).parents[2]
MODELS = ["gemma3_text", "gpt_neox", "mixtral", "olmo2", "phi3"]
# Strict, but for what vLLM's lack of usable type information makes of every class and call.
MYPY = """[mypy]
strict = True
follow_imports = skip
ignore_missing_imports = True
disallow_subclassing_any = False
disallow_untyped_decorators = False
warn_return_any = False
"""


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapters")
    for model in MODELS:
        kunport.generate_adapter(kunport.analyze(model), folder)
    return folder


def run(*command: str | Path, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False, env=os.environ | environment
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_linter_and_the_formatter_have_nothing_to_say(adapters: Path) -> None:
    run("ruff", "check", "--config", ROOT / "pyproject.toml", adapters)
    run("ruff", "format", "--check", "--config", ROOT / "pyproject.toml", adapters)


def test_the_type_checker_has_nothing_to_say(adapters: Path, tmp_path: Path) -> None:
    (tmp_path / "mypy.ini").write_text(MYPY)
    files = [adapters / model / f"{model}.py" for model in MODELS]
    run("mypy", "--config-file", tmp_path / "mypy.ini", "--cache-dir", tmp_path / "cache", *files)


def test_the_same_model_gives_the_same_bytes(adapters: Path, tmp_path: Path) -> None:
    for model in MODELS[:2]:
        # In a process of its own, where sets have another order.
        run("kunport", "generate", "adapters", model, "--output", tmp_path, PYTHONHASHSEED="7")
        again = tmp_path / model
        assert {path.name: path.read_bytes() for path in again.rglob("*") if path.is_file()} == {
            path.name: path.read_bytes() for path in (adapters / model).rglob("*") if path.is_file()
        }
