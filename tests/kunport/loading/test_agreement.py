"""The proof says what loading says; a case that cannot be loaded is a row of its own."""

import sys

from kunport.loading import __main__ as command
from kunport.loading.agreement import Row, compare
from kunport.loading.planted import FAULTS, SOUND


def test_proof_and_loading_agree(tmp_path):
    rows = list(compare(["mixtral", "no-such-case", "gpt_neox"], tmp_path))  # renamed and stacked; prefixed
    assert [row.fault for row in rows if row.case != "no-such-case"] == [SOUND, *FAULTS] * 2
    assert all(row.agrees for row in rows if row.case != "no-such-case")
    (refused,) = [row for row in rows if row.case == "no-such-case"]
    assert "status 1" in refused.problem
    assert not refused.agrees


def test_the_command_shows_where_they_differ(monkeypatch, capsys):
    rows = [
        Row("a", SOUND),
        Row("a", "missing", ("missing: x is not in the checkpoint",), ("missing_keys: ['x']",)),
        Row("b", "extra", (), ("unexpected_keys: ['y']",)),
    ]
    monkeypatch.setattr(command, "compare", lambda names, folder: rows)
    monkeypatch.setattr(sys, "argv", ["kunport.loading", "a", "b"])
    assert command.main() == 1
    out = capsys.readouterr().out
    assert "b extra: \n    proof:   fits\n    loading: unexpected_keys: ['y']" in out
    assert "missing           1    1" in out
