"""What generated kernels stand on, where no kernel runs: the references serve."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kunport_model_adapters import row_kernels
from kunport_model_adapters.discovery import SHIPPED

FILE = SHIPPED / "phi/kernels.py"


def test_without_a_device_the_reference_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4, 7)
    assert not row_kernels.launches(x)
    for case in row_kernels.cases(FILE).values():
        arguments = case.arguments(3, 10, torch.bfloat16, 0, "cpu")
        assert torch.equal(case.kernel(*arguments), case.reference(*arguments))
    monkeypatch.setattr(row_kernels, "_INTERPRETED", True)
    assert row_kernels.launches(x)
    assert not row_kernels.launches(x[:0])
    monkeypatch.setattr(row_kernels, "_REFERENCE_ONLY", True)
    assert not row_kernels.launches(x)


def test_rows_are_taken_as_they_lie_or_copied() -> None:
    x = torch.arange(48.0).reshape(4, 12)
    flat, step = row_kernels.rows(x[:, :5])
    assert step == 12
    assert flat.data_ptr() == x.data_ptr()
    flat, step = row_kernels.rows(x.t())
    assert (flat.stride(1), step) == (1, 4)
    assert torch.equal(flat, x.t())
    flat, step = row_kernels.rows(x.reshape(2, 2, 12))
    assert (list(flat.shape), step) == ([4, 12], 12)


def test_a_case_draws_what_its_kernel_is_given() -> None:
    case = row_kernels.Case(torch.add, torch.add, ("full model", "row float32", "column model", 0.5), (4, 8))
    full, row, column, number = case.arguments(3, 6, torch.bfloat16, 1, "cpu")
    assert [list(each.shape) for each in (full, row, column)] == [[3, 4, 6], [3, 4, 1], [6]]
    assert [each.dtype for each in (full, row, column)] == [torch.bfloat16, torch.float32, torch.bfloat16]
    assert number == 0.5


def test_a_check_that_would_run_nothing_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET"):
        row_kernels.check(FILE, "new_gelu_activation_rows", device="cpu")


def test_differences_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def case(change):  # type: ignore[no-untyped-def]
        return row_kernels.Case(lambda x: change(x), lambda x: x * 1, ("full model",), (8,))

    wrong = {"off by": lambda x: x + 0.1, "NaN": lambda x: x / 0 * 0, "not torch": lambda x: x.double()}
    for said, change in wrong.items():
        assert said in next(row_kernels._differences(case(change), 0, "cpu"))
    assert not list(row_kernels._differences(case(lambda x: x + 0), 0, "cpu"))


@pytest.mark.untraced
def test_the_command_checks_a_file_and_says_what_it_cannot_time() -> None:
    command = [sys.executable, "-m", "kunport_model_adapters.row_kernels", str(FILE)]
    done = subprocess.run(
        command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{name}: right; not timed: there is no accelerator" for name in row_kernels.names(Path(FILE))
    ]
