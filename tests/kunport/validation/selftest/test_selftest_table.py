"""What counts as caught, named and false."""

from __future__ import annotations

from kunport.validation.selftest.table import Row, Table, line

CAUGHT = Row("llama", "epsilon", checks=("modules",), named="model.norm (RMSNorm)", right=True)


def test_a_table_passes_where_all_is_caught_and_named() -> None:
    table = Table([Row("llama", ""), CAUGHT, Row("llama", "sinks_missing", reason="it has none")])
    assert table.passed
    assert table.summary().startswith("1 of 1 planted bugs of 1 kinds caught, the right module named in 1; 0 false")
    assert table.as_dict()["passed"] is True


def test_a_missed_bug_a_false_alarm_or_many_wrong_names_fail() -> None:
    assert not Table([CAUGHT, Row("llama", "scale")]).passed
    assert not Table([CAUGHT, Row("llama", "", checks=("start",), detail="hangs")]).passed
    misnamed = Row("llama", "scale", checks=("modules",), named="model.norm (RMSNorm)", wanted="Attention.attn")
    assert not Table([CAUGHT] * 10 + [misnamed]).passed
    assert Table([CAUGHT] * 19 + [misnamed]).passed


def test_lines_tell_the_cases_apart() -> None:
    assert "nothing found" in line(Row("llama", ""))
    assert "FALSE ALARM: hangs" in line(Row("llama", "", checks=("start",), detail="hangs"))
    assert "does not apply: it has none" in line(Row("llama", "sinks_missing", reason="it has none"))
    assert "MISSED" in line(Row("llama", "scale", error=1e-7))
    assert line(CAUGHT).endswith("model.norm (RMSNorm)")
    assert line(Row("llama", "scale", checks=("modules",), wanted="A.attn")).endswith("no module, NOT A.attn")
