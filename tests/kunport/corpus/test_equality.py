"""The sweep over the corpus on single cases: what it measures, and that it sees what is wrong."""

from __future__ import annotations

import pytest
from kunport.corpus.__main__ import main
from kunport.corpus.equality import BAR, Row, compare
from kunport.corpus.table import line, total
from kunport.validation.readings import Readings


def test_graphs_are_the_model_without_and_with_a_cache() -> None:
    row = compare("mamba")
    assert row.verdict == "equal"
    assert len(row.prefill) == len(row.decode) == 2
    assert all(isinstance(each, float) and each <= BAR for each in (*row.prefill, *row.decode))
    assert row.readings == 2


def test_a_wrong_graph_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cached graph forgets one state: the run without a cache is right, the one with a cache is not."""
    step = Readings.step

    def forgetful(self: Readings, batch: int, past: int) -> object:
        graph = step(self, batch, past)
        for node in graph.nodes:
            if node.op == "state":
                node.op, node.args, node.kwargs = "zeros", (node.shape,), {}
        return graph

    monkeypatch.setattr(Readings, "step", forgetful)
    row = compare("llama")
    assert row.verdict == "differs"
    assert max(row.prefill) <= BAR < min(row.decode)


def test_verdicts() -> None:
    assert Row("a", [0.0, 1e-7], [0.0, 9e-7]).verdict == "equal"
    assert Row("a", [0.0, 0.0], []).verdict == "equal"
    assert Row("a", [0.0, 2e-6]).verdict == "differs"
    assert Row("a", [0.0, float("nan")]).verdict == "differs"
    assert Row("a", ["torch refuses"]).verdict == "failed"
    assert Row("a", ["not understood"], unknowns=["file:1: why"]).verdict == "unknown"
    assert Row("a", [0.0, 0.0], ["library: it fails", 0.0]).verdict == "equal"


def test_table() -> None:
    rows = [Row("a", [0.0, 1e-7], [0.0, 9e-7]), Row("b", [1e-3, 0.0]), Row("c", ["why", 0.0], unknowns=["f:1: why"])]
    assert line(rows[0]).split() == ["equal", "a", "0.0e+00", "1.0e-07", "0.0e+00", "9.0e-07", "0", "0", "0.0"]
    assert line(rows[2]).endswith("why")
    assert "no cache" in line(rows[1])
    assert total(rows) == "1 of 3 equal (1 equal, 1 unknown, 0 failed, 1 differs); 1 of 1 with a cache"


def test_shares_of_what_is_not_understood(capsys: pytest.CaptureFixture[str]) -> None:
    """The defaults of Nemotron build no model; its tiny model is understood."""
    assert main(["unknowns", "llama", "nemotron"]) == 0
    printed = capsys.readouterr().out
    assert "unsupported operand type(s) for //: 'int' and 'NoneType'" in printed
    assert "in 1 of 2 models" in printed
    assert main(["unknowns", "--tiny", "nemotron"]) == 0
    assert "nodes are unknown (0.00 %), in 0 of 1 models" in capsys.readouterr().out
