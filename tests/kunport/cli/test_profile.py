"""`kunport profile` sums what processes left, and writes it as a page and as a trace."""

import json
from pathlib import Path

import pytest
from kunport.cli import main
from kunport_runtime.operators.accounting import Decision
from kunport_runtime.operators.profile_files import write_profile
from kunport_runtime.operators.timing import Span, Timer, Total


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    timer = Timer()
    calls = [
        ("model.layers.0", "linear", "torch", {"triton": "<slow>"}, 3_000_000, 4_000),
        ("model.layers.1", "linear", "torch", {"triton": "<slow>"}, 5_000_000, 4_000),
        ("model.layers.1", "paged_attention", "triton", {}, 2_000_000, None),
    ]
    for number, (layer, operator, provider, skipped, nanoseconds, moved) in enumerate(calls):
        decision = Decision(operator, provider, print, ())
        timer.totals[f"{number}", decision] = Total(layer, operator, provider, skipped, 2, nanoseconds, moved)
        timer.spans.append(Span(1_000 * number, nanoseconds, layer, operator, provider))
    memory = [{"tag": "kv_cache", "reserved": 3 << 20, "peak": 2 << 20}]
    write_profile(timer, tmp_path / "left", memory)
    return tmp_path / "left"


def test_operators_and_layers_are_summed_and_the_slowest_come_first(folder: Path, capsys) -> None:
    assert main(["profile", str(folder), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["count"], row["milliseconds"]) for row in found["operators"]] == [
        ("linear", 4, 8.0),
        ("paged_attention", 2, 2.0),
    ]
    assert [(row["name"], row["share"]) for row in found["layers"]] == [
        ("model.layers.1", 0.7),
        ("model.layers.0", 0.3),
    ]
    copied = [row["copied"] for row in found["operators"]]
    assert copied[0] > 0
    assert copied[1] is None  # of a pool no bytes are known
    assert found["memory"][0]["tag"] == "kv_cache"
    assert main(["profile", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("linear (torch)    not triton: <slow>")
    assert lines[-1] == "memory kv_cache: 3.0 MiB reserved, 2.0 at most"


def test_a_page_and_a_trace_are_written(folder: Path, tmp_path: Path, capsys) -> None:
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    assert main(["profile", str(folder), "--html", str(page), "--trace", str(trace)]) == 0
    text = page.read_text()
    assert "<td>model.layers.1<td>" in text
    assert "not triton: &lt;slow&gt;" in text
    assert "<td>kv_cache<td>" in text
    calls = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    assert [(each["name"], each["ts"], each["dur"]) for each in calls] == [
        ("linear", 0.0, 3000.0),
        ("linear", 1.0, 5000.0),
        ("paged_attention", 2.0, 2000.0),
    ]
    assert {each["args"]["layer"] for each in calls} == {"model.layers.0", "model.layers.1"}


def test_a_folder_without_profiles_is_refused_with_the_cure(tmp_path: Path, capsys) -> None:
    assert main(["profile", str(tmp_path)]) == 2
    assert "KUNPORT_OPS_PROFILE" in capsys.readouterr().err
