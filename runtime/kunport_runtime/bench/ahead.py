"""Compile what launchers would launch, for a device that need not be here, and say what each kernel takes."""

import contextlib
import multiprocessing
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

HOPPER = ("cuda", 90, 32)


@dataclass(frozen=True, slots=True)
class Resources:
    """What a compiled kernel takes: registers a thread, bytes of local memory a thread (spills), of shared memory."""

    kernel: str
    registers: int
    spilled: int
    shared: int
    warps: int


class _Driver:
    """Stands in for a device's driver, of which compiling needs no more than the target."""

    def __init__(self, target: tuple[str, int, int]) -> None:
        self._target = GPUTarget(*target)

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_device_interface(self) -> Any:
        return torch.cpu

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


@contextlib.contextmanager
def compiling_only(target: tuple[str, int, int] = HOPPER) -> Iterator[list[Any]]:
    """Inside, launchers called on CPU tensors compile their kernels for `target`, which are listed, and run none.

    The active driver stays replaced: meant for a process of its own.
    """
    compiled: list[Any] = []
    launch = JITFunction.run

    def compile_instead(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        compiled.append(launch(kernel, *arguments, grid=grid, warmup=True, **options))
        return compiled[-1]

    triton.runtime.driver.set_active(_Driver(target))
    JITFunction.run = compile_instead
    try:
        yield compiled
    finally:
        JITFunction.run = launch


def resources(compiled: Any) -> Resources:
    """Read with the disassembler that Triton carries; `compiled` is one of `compiling_only`."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout

    def figure(name: str) -> int:
        found = re.search(rf"{name}:(\d+)", usage)
        assert found, f"no {name} in {usage!r}"
        return int(found[1])

    metadata = compiled.metadata
    return Resources(metadata.name, figure("REG"), figure("STACK"), metadata.shared, metadata.num_warps)


def compile_in_parallel(jobs: Sequence[Callable[[], None]], seconds: float = 110) -> list[str]:
    """Run picklable launchers, which find their kernels in Triton's cache afterwards, in processes; returns errors.

    The processes are started afresh: threads of torch do not survive a fork. What is not compiled after `seconds` is
    left to the first launch.
    """
    pool = multiprocessing.get_context("spawn").Pool(os.cpu_count(), initializer=torch.set_num_threads, initargs=(1,))
    pending = [pool.apply_async(_compile, (job,)) for job in jobs]
    pool.close()
    end = time.monotonic() + seconds
    errors = []
    for each in pending:
        try:
            errors.append(each.get(timeout=max(0.1, end - time.monotonic())))
        except multiprocessing.TimeoutError:
            errors.append(f"not all compiled after {seconds:.0f} s")
            break
    pool.terminate()
    return [error for error in errors if error]


def _compile(job: Callable[[], None]) -> str | None:
    try:
        with compiling_only():
            job()
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
    return None
