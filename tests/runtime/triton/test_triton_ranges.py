"""Decode over an fp8 cache multiplies in float16: queries far beyond its range, and far below, lose nothing."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
from dataclasses import replace
import torch
from kunport_runtime.bench.attention import Batch, expected
from kunport_runtime.providers.triton.paged_decode import decode

sizes = dict(heads=4, key_heads=2, size=32, value_size=32, cache_dtype=torch.float8_e4m3fn)
for cap in (0.0, 30.0):
    for factor in (1.0, 3e6, 1e-9):
        a = Batch([(1, 40), (1, 70)], softcap=cap, **sizes).arguments("cpu", 0)
        a = replace(a, query=a.query * factor, scale=a.scale / factor)
        decode(a)
        right = expected(a)
        print(float((a.out.double() - right).norm() / right.norm()))
"""


def test_queries_of_any_size_are_right_over_an_fp8_cache(tmp_path: Path) -> None:
    script = tmp_path / "ranges.py"  # a file: Triton reads a kernel's source
    script.write_text(SCRIPT)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-W", "ignore", script], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    errors = [float(line) for line in run.stdout.split()]
    assert len(errors) == 6
    assert max(errors) < 4e-3  # bfloat16 results, rounded once
