"""A tuning table gives the configuration of the nearest shape, and defaults where it says nothing."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.implementations import IMPLEMENTATIONS

# Kernels with a name of their own in the tables
PARTS = {"paged_decode", "paged_prefill", "fused_experts_up", "fused_experts_down", "fp8_matmul_grouped"}
PARTS |= {f"{name}_chunks" for name in ("mamba2_scan", "gated_delta_rule", "linear_attention")}
KNOWN = PARTS | {each.operator for each in IMPLEMENTATIONS}
DEFAULTS: tuning.Config = {"block": 8, "warps": 1}
CPU = torch.device("cpu")
sizes = st.integers(1, 1 << 24)


def _clear() -> None:
    tuning._nearest.cache_clear()
    tuning.table.cache_clear()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [{"dtype": "float16", "shape": {"rows": rows}, "config": {"block": rows}} for rows in (16, 1024, 65536)]
    (tmp_path / "cpu.json").write_text(json.dumps({"norm": entries}))
    monkeypatch.setenv("KUNPORT_TUNING", str(tmp_path))
    _clear()
    yield
    _clear()


@pytest.mark.parametrize(("rows", "block"), [(1, 16), (100, 16), (300, 1024), (4096, 1024), (1 << 20, 65536)])
def test_the_nearest_shape_in_powers_of_two_decides(table: None, rows: int, block: int) -> None:
    assert tuning.lookup("norm", torch.float16, CPU, DEFAULTS, rows=rows) == {"block": block, "warps": 1}


def test_other_operators_and_dtypes_take_the_defaults(table: None) -> None:
    assert tuning.lookup("rope", torch.float16, CPU, DEFAULTS, rows=16) == DEFAULTS
    assert tuning.lookup("norm", torch.float32, CPU, DEFAULTS, rows=16) == DEFAULTS


def test_a_forced_configuration_wins_and_is_forgotten(table: None) -> None:
    with tuning.forced("norm", {"block": 3}):
        assert tuning.lookup("norm", torch.float16, CPU, DEFAULTS, rows=16)["block"] == 3
    assert tuning.lookup("norm", torch.float16, CPU, DEFAULTS, rows=16)["block"] == 16


def test_every_shipped_table_names_known_operators_and_safe_values() -> None:
    for path in tuning.FOLDER.glob("*.json"):
        for operator, entries in json.loads(path.read_text()).items():
            assert operator in KNOWN
            for entry in entries:
                assert hasattr(torch, entry["dtype"])
                assert entry["config"]["warps"] in {1, 2, 4, 8, 16}


@given(programs=sizes, longest=sizes, wanted=sizes, part=st.integers(1, 1 << 12))
def test_keys_are_split_into_a_power_of_two_of_parts_that_are_worth_it(
    programs: int, longest: int, wanted: int, part: int
) -> None:
    from kunport_runtime.providers.triton.paged_decode import splits

    parts = splits(programs, longest, {"programs": wanted, "part": part})
    assert parts & (parts - 1) == 0
    assert parts == 1 or (longest / parts >= part and programs * parts <= 2 * wanted)
