import io
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from kunport.cli.terminal import accept_any_text, clean, note, say, write


@given(st.text(st.characters(codec=None)))
def test_nothing_but_line_breaks_steers_a_terminal(text):
    shown = clean(text)
    steering = [character for character in shown if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert steering == ["\n"] * text.count("\n")


def test_escapes_are_visible_and_line_breaks_kept_where_wanted(capsys):
    say("\x1b[31mred\nnext")
    note("\u202eback")
    write("{}\n")
    out, err = capsys.readouterr()
    assert out == "\\x1b[31mred\nnext\n{}\n"
    assert err == "\\u202eback\n"


def test_a_narrow_terminal_shows_escapes(monkeypatch):
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    accept_any_text()
    print("é", end="", flush=True)
    assert narrow.buffer.getvalue() == b"\\xe9"
