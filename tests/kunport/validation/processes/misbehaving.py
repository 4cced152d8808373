"""A child process that gets through one stage and then does what it is told: ``misbehaving.py HOW``, or HOW in MISBEHAVE."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time

from kunport.errors import KunportError
from kunport.validation.processes.child import Channel


def main(how: str) -> None:
    channel = Channel()
    job = channel.receive()
    with channel.stage("first") as facts:
        print("libraries print what they like")
        subprocess.run(["echo", '{"stage": "forged", "status": "passed"}'], check=True)
        facts["echo"] = job
        facts["detail"] = "first is done"
    if how == "leave early":
        return
    with channel.stage("second"):
        misbehave(how, channel)
    if how == "turns":
        while (turn := channel.receive()) is not None:
            with channel.stage(f"turn {turn}") as facts:
                facts["doubled"] = 2 * turn
    channel.done()
    if how == "hang after the end":
        time.sleep(3600)


def misbehave(how: str, channel: Channel) -> None:
    match how:
        case "raise":
            raise ValueError("the second line\nis not told")
        case "raise without a message":
            raise AssertionError
        case "refuse":
            raise KunportError("The weights are missing.", "Download them.")
        case "be slow":
            for step in range(8):
                time.sleep(2)
                channel.progress("second", f"step {step}")
        case "hang":
            time.sleep(3600)
        case "hang with children":
            subprocess.run(["sleep", "3600"], check=True)
        case "crash":
            ctypes.string_at(0)
        case "abort":
            os.abort()
        case "exit":
            os._exit(7)
        case "exit as if all were well":
            os._exit(0)
        case "be killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exhaust the memory":
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
            bytearray(1 << 32)


if __name__ == "__main__":
    main(os.environ.get("MISBEHAVE") or sys.argv[1])
