"""Triton's kernels compute what the contracts say: the contracts' cases, interpreted, in float32 and bfloat16."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kunport_runtime.providers.triton.implementations import IMPLEMENTATIONS

pytestmark = pytest.mark.untraced  # of the interpreter coverage shows little, and takes half of the time

OPERATORS = [each.operator for each in IMPLEMENTATIONS]

# Sequences in parts of 16 keys, and descriptors: what the table of a device may ask for and the defaults do not.
TUNED = {
    "paged_decode": [{"dtype": "float32", "shape": {}, "config": {"block": 16, "programs": 64, "part": 16}}],
    "paged_prefill": [
        {"dtype": "float32", "shape": {}, "config": {"block": 8, "rows": 16, "descriptors": True, "order": 1}}
    ],
}


def outcomes(*cases: str, **environment: str) -> dict[str, list[list[object]]]:
    """`OPERATOR:DTYPE` -> the rows of its cases."""
    script = Path(__file__).with_name("triton_outcomes.py")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", script, *cases],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    rows: dict[str, list[list[object]]] = {case: [] for case in cases}
    for line in run.stdout.splitlines():
        row = json.loads(line)
        rows[row[0]].append(row)
    return rows


@pytest.fixture(scope="module")
def shown() -> dict[str, list[list[object]]]:
    return outcomes(*(f"{operator}:{dtype}" for operator in OPERATORS for dtype in ("float32", "bfloat16")))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_case_of_the_contract_is_taken_and_right(
    shown: dict[str, list[list[object]]], operator: str, dtype: str
) -> None:
    rows = shown[f"{operator}:{dtype}"]
    assert rows
    assert [row for row in rows if row[2]] == []


def test_attention_is_right_with_other_tuning_too(tmp_path: Path) -> None:
    (tmp_path / "cpu.json").write_text(json.dumps(TUNED))
    rows = outcomes("paged_attention:float32", KUNPORT_TUNING=str(tmp_path))["paged_attention:float32"]
    assert rows
    assert [row for row in rows if row[2]] == []
