"""Loops whose turns only the data tell."""

import pytest
from both_ways import model, read, same_both_ways

EXPERTS = """
hit = torch.greater(F.one_hot(input_ids % 5, 5).sum(dim=(0, 1)), 0).nonzero()
tokens = x.reshape(-1, 8)
total = torch.zeros_like(tokens)
for index in hit:
    index = index[0]
    if index == 4:
        continue
    (place,) = torch.where((input_ids % 5).reshape(-1) == index)
    total.index_add_(0, place, tokens[place] @ self.weight[index])
x = total.view(x.shape)
"""


def test_experts_become_one_symbolic_turn(tmp_path):
    source = model(EXPERTS, init="self.weight = nn.Parameter(torch.empty(5, 8, 8))")
    graph = same_both_ways(tmp_path, source)
    (loop,) = [node for node in graph.nodes if node.op == "loop"]
    assert len(loop.body.carried) == 1
    assert loop.body.skip is not None
    assert [node.op for node in loop.body.nodes].count("index_add") == 1


def test_rebound_variable_is_carried(tmp_path):
    graph = same_both_ways(tmp_path, model("for i in (input_ids[0] > 7).nonzero():\n    x = x * 2 + i[0]\n    y = x"))
    (loop,) = [node for node in graph.nodes if node.op == "loop"]
    assert len(loop.body.carried) == 1


def test_view_of_what_a_loop_writes(tmp_path):
    same_both_ways(
        tmp_path,
        model(
            "x = x.clone()\nrow = x[:, 0]\nfor i in (input_ids[0] > 7).nonzero():\n    row += i[0]\nx = x + row[:, None]"
        ),
    )


@pytest.mark.parametrize("statement", ["break", "return x", "count = count + 1", "parts = [x]"])
def test_what_a_loop_node_cannot_hold_is_unknown(statement, tmp_path):
    graph = read(tmp_path, model(f"count = 0\nparts = []\nfor i in (input_ids[0] > 7).nonzero():\n    {statement}"))
    assert graph.unknowns()


def test_loop_over_a_size_is_unrolled_loudly(tmp_path):
    graph = read(
        tmp_path, model("y = torch.zeros_like(x[:, 0])\nfor t in range(x.shape[1]):\n    y = y + x[:, t]\nx = y")
    )
    assert any("unrolled" in note for note in graph.notes)
    assert not graph.unknowns()


def test_loop_over_rows_of_a_tensor_is_unrolled_loudly(tmp_path):
    graph = read(tmp_path, model("y = 0\nfor row in x.transpose(0, 1):\n    y = y + row\nx = y"))
    assert any("sequence" in note and "unrolled" in note for note in graph.notes)
