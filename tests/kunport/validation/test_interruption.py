"""Interrupting a validation leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from checkpoints import write_checkpoint


def test_an_interrupted_validation_ends_what_it_started(tmp_path: Path) -> None:
    code = f"""
import signal
from pathlib import Path
from kunport.validation import validate
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background command inherits that it is ignored
validate(None, Path({str(write_checkpoint(tmp_path))!r}))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        # Both are there; that they import their libraries for a while yet does not matter.
        while len(children := _children(process.pid)) < 2:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors
    for child in children:
        _wait_for_the_end_of(child)


def _children(parent: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # gone in the meantime
            continue
        if int(fields[1]) == parent:
            found.append(int(status.parent.name))
    return found


def _wait_for_the_end_of(process: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError(f"process {process} is still there")
