"""Triton's kernels compile for Hopper where no device is, and take no more than it has."""

import json
import os
import subprocess
import sys
from pathlib import Path

SHARED = 227 * 1024  # bytes of a multiprocessor that one program may have
SPILLED = 96  # bytes of local memory a thread: prefill at 128 registers spills 64, and is faster with two programs


def test_kernels_compile_for_hopper_and_hardly_spill() -> None:
    script = Path(__file__).with_name("triton_resources.py")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", script],
        env={**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    kernels = [json.loads(line) for line in run.stdout.splitlines()]
    print(*kernels, sep="\n")
    assert {"_decode", "_prefill", "_rms_norm", "_rope", "_gated_activation", "_cache_write", "_chunked_state"} <= {
        row[0] for row in kernels
    }
    assert [row for row in kernels if row[2] > SPILLED or row[3] > SHARED] == []
    assert any(row[1] > 32 for row in kernels)  # the figures are read, not zeros
