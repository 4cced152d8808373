"""Reading statements from text: what is found, and what is refused instead of guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport.analysis.library.definitions import class_body, classes, statements, table


def test_classes_are_those_at_the_top_level():
    assert classes("class A:\n    class B: pass\nclass C(A): pass\n") == ["A", "C"]


def test_a_statement_ends_where_the_next_begins():
    source = "T = [\n    1,\n# a remark\n    2,\n]\nU = 3\nT.update({})\n"
    assert list(statements(source, "T")) == ["T = [\n    1,\n# a remark\n    2,\n]\n", "T.update({})\n"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('T = {"a": 1}\n', {"a": 1}),
        ('T = OrderedDict([("a", "x"), ("b", ("y", "z"))])\n', {"a": "x", "b": ("y", "z")}),
        ('T = OrderedDict(**{"z": 0}, **T)\n', {"z": 0, "known": 1}),
        ('T.update({"b": 2})\n', {"known": 1, "b": 2}),
        ('S = {"s": 1}\nT = OrderedDict([*list(S.items()), ("t", 2)])\n', {"s": 1, "t": 2}),
        ("T: dict[str, str] = dict(a='b')\n", {"a": "b"}),
        ("other = 1\n", {"known": 1}),
    ],
)
def test_tables_are_read_in_every_form_they_are_written_in(source, expected):
    assert table(source, "T", {"known": 1}) == expected


@pytest.mark.parametrize(
    "source",
    [
        *(
            "T = make()[0]\n",
            "T = {f(): 1}\n",
            "T = {\n",
            "T = 3\n",
            "T = [1]\n",
            "T = {[]: 1}\n",
            "T = {'\\0': 1, \0}\n",
        ),
        *("T = U\nU = T\n", f"T = {'(' * 300}{')' * 300}\n", f"T = {'-' * 5000}1\n", f"T = {{1: {'9' * 5000}}}\n"),
    ],
)
def test_a_table_that_must_be_computed_is_refused(source):
    with pytest.raises((ValueError,)):
        table(source, "T")


def test_a_class_body_survives_unindented_docstrings():
    body = class_body('class A:\n    """Text\nunindented text\n"""\n    x = 1\n', "A")
    assert body is not None
    assert len(body.body) == 2
    assert class_body("class A(:\n", "A") is None
    assert class_body("", "A") is None


@given(st.text())
def test_no_text_is_a_traceback(source):
    classes(source)
    class_body(source, "A")
    list(statements(source, "T"))
