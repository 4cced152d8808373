"""Triton's kernels compute what the contracts say: the contracts' cases, interpreted, in float32 and bfloat16."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kunport_runtime.operators.registry import registry
from kunport_runtime.providers.triton.implementations import IMPLEMENTATIONS

pytestmark = pytest.mark.untraced  # of the interpreter coverage shows little, and takes half of the time

OPERATORS = [each.operator for each in IMPLEMENTATIONS]


def every(dtype: str, **config: int) -> list[dict[str, object]]:
    """An operator's entry of a tuning table, whatever the shape."""
    return [{"dtype": dtype, "shape": {}, "config": config}]


SMALL_TILES = {"rows": 16, "outputs": 16, "depth": 32, "band": 2}  # several of each in every direction

# Sequences in parts of 16 keys, tokens in parts of their heads, descriptors, and more tiles and blocks than one: what the table of a device may ask for,
# or large sizes, and the defaults do not at the sizes of cases.
TUNED = {
    "linear": every("float32", **SMALL_TILES),
    "grouped_matmul": every("float32", **SMALL_TILES),
    "fused_experts_up": every("float32", rows=32, outputs=32, depth=32, short=16, descriptors=True),
    "fused_experts_down": every("float32", rows=32, outputs=32, depth=32, short=16, descriptors=True),
    "fp8_matmul": every("float8_e4m3fn", **SMALL_TILES),
    "int8_matmul": every("int8", **SMALL_TILES),
    "sample": every("float32", block=1024),
    "linear_attention": every("float32", elements=512),
    "mamba1_scan": every("float32", elements=512),
    "short_convolution": every("float32", rows=4, block=16),
    "embed_tokens": every("float32", block=32),
    "rotary_embedding": every("float32", parts=2),
    "qk_norm_rope_cache_write": every("float32", parts=2),
    "paged_decode": [{"dtype": "float32", "shape": {}, "config": {"block": 16, "programs": 64, "part": 16}}],
    "paged_prefill": [
        {"dtype": "float32", "shape": {}, "config": {"block": 8, "rows": 16, "descriptors": True, "order": 1}}
    ],
}


def interpreted(name: str, *arguments: str, **environment: str) -> list[list[Any]]:
    """The rows that a script beside this file prints."""
    script = Path(__file__).with_name(name)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", script, *arguments],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def outcomes(*cases: str, **environment: str) -> dict[str, list[list[object]]]:
    """`OPERATOR:DTYPE` -> the rows of its cases."""
    rows: dict[str, list[list[object]]] = {case: [] for case in cases}
    for row in interpreted("triton_outcomes.py", *cases, **environment):
        rows[row[0]].append(row)
    return rows


# The interpreter takes seconds for these. In bfloat16, which differs in roundings alone, their first case is enough.
SLOW = {each.name for each in registry.contracts() if each.family == "state"} | {"mla_attention", "sample"}


def named(operator: str, dtype: str) -> str:
    return f"{operator}:{dtype}:1" if operator in SLOW and dtype == "bfloat16" else f"{operator}:{dtype}"


@pytest.fixture(scope="module")
def shown() -> dict[str, list[list[object]]]:
    return outcomes(*(named(operator, dtype) for operator in OPERATORS for dtype in ("float32", "bfloat16")))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_case_of_the_contract_is_taken_and_right(
    shown: dict[str, list[list[object]]], operator: str, dtype: str
) -> None:
    rows = shown[named(operator, dtype)]
    assert rows
    assert [row for row in rows if row[2]] == []


def test_kernels_are_right_with_other_tuning_too(tmp_path: Path) -> None:
    (tmp_path / "cpu.json").write_text(json.dumps(TUNED))
    operators = ("paged_attention", "fused_experts", *(name for name in TUNED if name in OPERATORS))
    shown = outcomes(*(f"{operator}:float32" for operator in operators), KUNPORT_TUNING=str(tmp_path))
    assert all(shown.values())
    assert [row for rows in shown.values() for row in rows if row[2]] == []


def test_prompts_of_several_chunks_leave_the_states_that_token_by_token_leaves() -> None:
    rows = interpreted("triton_chunks.py")
    assert {row[0] for row in rows} == {"linear_attention", "gated_delta_rule", "mamba2_scan"}
    assert [row for row in rows if not row[2] <= 1] == []


def test_choices_of_many_blocks_come_in_the_order_of_a_stable_sort() -> None:
    rows = interpreted("triton_order.py")
    assert len(rows) == 5
    assert [row for row in rows if not row[2]] == []
