"""Labels beside hand-made facts: what counts as right, wrong, missed and opaque."""

from __future__ import annotations

from typing import Any

import pytest
from kunport.oracle.__main__ import facts_beside, main, print_misses, print_table
from kunport.oracle.labels import Labels, Scope
from kunport.oracle.score import Pair, agree, count, judge, total


def fact(value: Any, status: str = "proved") -> dict[str, Any]:
    return {"value": value, "status": status, "where": {"file": "modeling.py", "line": 1}}


def labelled(**values: Any) -> Scope:
    scope = Scope()
    for key, value in values.items():
        scope.label(key.replace("__", "."), value)
    return scope


@pytest.fixture
def pairs() -> list[Pair]:
    labels = Labels("toy", model=labelled(layers=2, head__tied=True))
    labels.layers["model.layers.0"] = labelled(attention__heads=4, attention__window=None, mlp__size=64)
    labels.layers["model.layers.1"] = labelled(attention__heads=4, attention__window=8, mlp__size=64)
    first = {"attention.heads": fact(4), "attention.window": fact(None), "mlp.size": fact(None, "opaque")}
    second = {"attention.heads": fact(4), "attention.window": fact(None), "mlp.bias": fact(False)}
    facts = {
        "model": {"layers": fact(2, "depends"), "head.tied": fact(False)},
        "layers": [
            {"stack": "model.layers", "layers": [0], "facts": first},
            {"stack": "model.layers", "layers": [1], "facts": second},
        ],
    }
    return judge(labels, facts)


def test_layers_are_compared_one_by_one(pairs: list[Pair]) -> None:
    verdicts = {(pair.place, pair.key): pair.verdict for pair in pairs}
    assert verdicts == {
        ("", "layers"): "right",
        ("", "head.tied"): "wrong",
        ("model.layers.0", "attention.heads"): "right",
        ("model.layers.0", "attention.window"): "right",
        ("model.layers.0", "mlp.size"): "opaque",
        ("model.layers.1", "attention.heads"): "right",
        ("model.layers.1", "attention.window"): "wrong",
        ("model.layers.1", "mlp.size"): "missed",
    }


def test_opaque_counts_as_neither(pairs: list[Pair]) -> None:
    everything = total(count(pairs))
    assert (everything.right, everything.wrong, everything.missed, everything.opaque) == (4, 2, 1, 1)
    assert everything.precision == pytest.approx(4 / 6)
    assert everything.recall == pytest.approx(4 / 7)


def test_a_model_that_cannot_be_read_is_opaque() -> None:
    found = judge(Labels("toy", model=labelled(layers=2)), {"model": {}, "layers": []}, opaque="no such file")
    assert [pair.verdict for pair in found] == ["opaque"]


def test_any_of_several_right_values_is_right() -> None:
    labels = Labels("toy")
    labels.model.label("attention.packing", "kv", "q_kv")
    for value, verdict in (("kv", "right"), ("q_kv", "right"), ("separate", "wrong")):
        facts = {"model": {"attention.packing": fact(value)}, "layers": []}
        assert [pair.verdict for pair in judge(labels, facts)] == [verdict]


@pytest.mark.parametrize(
    ("label", "stated", "same"),
    [
        (1.0e-6, 9.9999e-7, True),
        (1.0e-6, 1.0e-5, False),
        (0.25, 0.25, True),
        (1, 1.0, True),
        (0.0, 0.0, True),
        (True, 1, False),
        (None, False, False),
        (None, None, True),
        ([], [], True),
        (["k", "q"], ["q", "k"], False),
        ("rms", "layer", False),
    ],
)
def test_values_agree(label: Any, stated: Any, same: bool) -> None:
    assert agree(label, stated) is same


def test_misses_are_listed_once_for_all_layers(capsys: pytest.CaptureFixture[str]) -> None:
    print_misses([Pair("toy", f"layers.{i}", "mlp.size", "wrong", 64, 32) for i in range(3)], opaque=False)
    assert capsys.readouterr().out == "wrong: toy layers.0 mlp.size: 64, stated 32 (and 2 more layers)\n"


def test_table_has_a_line_for_each_key_and_the_total(pairs: list[Pair], capsys: pytest.CaptureFixture[str]) -> None:
    print_table(count([*pairs, Pair("toy", "", "norm[a].kind", "right", "rms", "rms")]))
    lines = capsys.readouterr().out.split("\n")[2:-1]
    assert [line.split()[0] for line in lines] == [
        "attention.heads", "attention.window", "head.tied", "layers", "mlp.size", "norm[].kind", "total",
    ]  # fmt: skip
    assert lines[-1].split()[1:5] == ["5", "2", "1", "1"]


def test_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lama"]) == 2
    assert "llama" in capsys.readouterr().err


def test_where_the_analysis_breaks_every_label_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(labels: Labels) -> list[Pair]:
        raise RecursionError(f"too deep in {labels.case}")

    monkeypatch.setattr("kunport.oracle.__main__.compare", broken)
    found = facts_beside(Labels("toy", model=labelled(layers=2)))
    assert [pair.verdict for pair in found] == ["missed"]
    assert capsys.readouterr().out == "no facts: toy: RecursionError: too deep in toy\n"
