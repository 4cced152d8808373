from kunport.corpus import adapters
from kunport.corpus.adapters import PASSED, REFUSED, WRONG, Row


def test_what_is_refused_is_no_failure_and_says_why(tmp_path):
    row = adapters.port("blt", tmp_path)
    assert (row.verdict, row.error, row.lines) == (REFUSED, None, 0)
    assert "modeling_blt.py" in row.reason
    assert str(row).startswith("refused  blt ")
    assert not list(tmp_path.rglob("*.safetensors"))


def test_the_total_counts_defaults_apart_from_variants():
    rows = [
        Row("llama", PASSED, 1e-6, (8, 8)),
        Row("gpt2:scale_by_layer", PASSED),
        Row("blt", REFUSED),
        Row("opt", WRONG),
    ]
    assert adapters.total(rows) == "2 of 4 passed (2 passed, 1 refused, 1 wrong); of 3 defaults 1"


def test_a_row_is_one_line_with_its_figures():
    line = str(Row("llama", PASSED, 1.26e-6, (239, 240), 231, 4.56))
    assert line.split() == ["passed", "llama", "1.3e-06", "239/240", "231", "4.6"]
