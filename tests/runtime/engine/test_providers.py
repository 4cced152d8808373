"""A fixed sample of `tools/providers.py`: a model served through Triton interpreted, and through the vendor."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

TOOL = Path(__file__).parents[3] / "tools" / "providers.py"
PROVIDERS = ("triton", "vendor")


@pytest.fixture(scope="module")
def printed(tmp_path_factory, untraced):
    output = str(tmp_path_factory.mktemp("providers"))
    command = [sys.executable, str(TOOL), "qwen2", "--providers", *PROVIDERS, "--tokens", "3", "--output", output]
    done = subprocess.run(command, env=untraced, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("provider", PROVIDERS)
def test_tokens_are_those_of_transformers(printed, provider):
    (row,) = (row for line in printed.splitlines() if (row := line.split())[:2] == ["qwen2", provider])
    assert row[2:4] == ["pass", "6/6"]
    assert {"rms_norm,", "paged_attention,", "cache_write,"} <= set(row)
