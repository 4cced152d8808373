"""Tuning takes a configuration that is faster by more than rounds differ, and keeps everything else as it was."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kunport_runtime.bench import tune
from kunport_runtime.bench.rounds import Measurement
from kunport_runtime.bench.trial import Trial, wanted
from kunport_runtime.providers.triton import tuning

OLD, NEW = {"warps": 4}, {"warps": 8}


def trial(rows: int = 64) -> Trial:
    return Trial(
        "norm", f"{rows} rows", torch.bfloat16, {"rows": rows}, 1, "bytes", lambda: None, [OLD, NEW], lambda: None,
        lambda: 0.0,
    )  # fmt: skip


def measured(name: str, config: tuning.Config | None, rate: float) -> Measurement:
    return Measurement("norm", "", name, config, [rate * 0.9, rate, rate * 1.1], 0.0)


@pytest.mark.parametrize(("rate", "config"), [(1.005, OLD), (1.02, NEW), (0.5, OLD)])
def test_only_what_is_clearly_faster_takes_the_place_of_what_is_in_use(rate: float, config: tuning.Config) -> None:
    results = [measured("warps=8", NEW, rate), measured("in use", None, 1.0)]
    choice = tune.choose(trial(), OLD, results)
    assert choice is not None
    assert choice.entry == {"dtype": "bfloat16", "shape": {"rows": 64}, "config": config}
    assert choice.changes == (config == NEW)
    assert ("of what was in use" in tune.line(choice)) == choice.changes


def test_without_a_right_candidate_nothing_is_chosen() -> None:
    assert tune.choose(trial(), {}, [measured("in use", None, 1.0)]) is None


ENTRIES = st.lists(
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["bfloat16", "float32"]),
            "shape": st.fixed_dictionaries({"rows": st.integers(1, 9)}),
            "config": st.fixed_dictionaries({"warps": st.sampled_from([1, 2])}),
        }
    ),
    unique_by=lambda entry: (entry["dtype"], entry["shape"]["rows"]),
)


@given(st.dictionaries(st.sampled_from(["norm", "rope"]), ENTRIES), st.integers(1, 9))
def test_a_choice_changes_its_own_entry_and_no_other(table: tuning.Table, rows: int) -> None:
    choice = tune.Choice("norm", "", {"dtype": "bfloat16", "shape": {"rows": rows}, "config": NEW}, OLD, 2.0, 1.0)
    found = tune.changed(table, choice)
    assert tuning.nearest(found, "norm", torch.bfloat16, {"rows": rows}) == NEW
    mine = [each for each in found["norm"] if each["config"] == NEW]
    kept = [each for each in table.get("norm", []) if (each["dtype"], each["shape"]) != ("bfloat16", {"rows": rows})]
    assert (len(mine), [each for each in found["norm"] if each not in mine]) == (1, kept)
    assert found.get("rope") == table.get("rope")
    same = tune.Choice("norm", "", {**choice.entry, "config": OLD}, OLD, 1.0, 1.0)
    assert tune.changed(table, same) is table


def test_a_table_is_written_an_entry_a_line_and_read_again(tmp_path: Path) -> None:
    table = json.loads((tuning.FOLDER / "nvidia_h200.json").read_text())
    tuning.write_table(tmp_path / "new" / "device.json", table)
    written = (tmp_path / "new" / "device.json").read_text()
    assert json.loads(written) == table
    assert written.count('"dtype"') == sum('"dtype"' in line for line in written.splitlines())


def test_several_texts_select_what_has_one_of_them() -> None:
    assert wanted("rms_norm", "")
    assert wanted("rms_norm", "rope,norm")
    assert not wanted("rms_norm", "rope,linear")
