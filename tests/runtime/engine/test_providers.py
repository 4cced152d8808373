"""A fixed sample of `tools/providers.py`: a model served through Triton interpreted, another through the vendor."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]

TOOL = Path(__file__).parents[3] / "tools" / "providers.py"


@pytest.mark.parametrize(("model", "provider"), [("qwen2", "triton"), ("olmo2", "vendor")])
def test_tokens_are_those_of_transformers(model, provider, tmp_path):
    command = [sys.executable, str(TOOL), model, "--providers", provider, "--tokens", "3", "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = (line.split() for line in done.stdout.splitlines() if line.startswith(model))
    assert row[1:4] == [provider, "pass", "6/6"]
    assert {"rms_norm,", "paged_attention,", "cache_write,"} <= set(row)
