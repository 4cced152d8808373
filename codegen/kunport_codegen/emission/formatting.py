"""Formats Python with ruff, in the repository's style whatever the user's folder says."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig


def format_python(code: str, name: str) -> str:
    """The code as ``ruff format`` writes it at 120 columns.

    Raises:
        ValueError: the code does not parse.
    """
    command = [
        shutil.which("ruff", path=sysconfig.get_path("scripts")) or "ruff",
        "format",
        "--isolated",
        "--no-cache",
        "--line-length",
        "120",
        "--stdin-filename",
        name,
        "-",
    ]
    result = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ValueError(f"{name} does not parse: {result.stderr.strip()}")
    return result.stdout
