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


@pytest.mark.parametrize("turn", ["y = y + x[:, t] if t > 0 else y", "y = y + scales[t]", "parts.extend([y, y])"])
def test_loop_over_a_size_with_turns_that_differ_is_unrolled_loudly(turn, tmp_path):
    start = "y = torch.zeros_like(x[:, 0])\nscales = list(range(50))\nparts = []\n"
    graph = read(tmp_path, model(f"{start}for t in range(x.shape[1]):\n    {turn}\nx = y"))
    assert any("unrolled" in note for note in graph.notes)
    assert not graph.unknowns()
    assert not any(node.op == "loop" for node in graph.nodes)


def test_loop_over_rows_of_a_tensor_is_unrolled_loudly(tmp_path):
    graph = read(tmp_path, model("y = 0\nfor row in x.transpose(0, 1):\n    y = y + row\nx = y"))
    assert any("sequence" in note and "unrolled" in note for note in graph.notes)


BRANCHES = {
    "both bind a new name": "if x.sum() > 0:\n    y = x * 2\nelse:\n    y = x - 1\nx = x + y",
    "one rebinds": "y = x\nif x.sum() < 0:\n    y = x * 2\nx = x + y",
    "one writes in place": "x = x.clone()\nif x.sum() < 0:\n    x[:, 0] = 1.0\n    x += 2",
    "several tests": "if x.sum() < -3:\n    y = x\nelif x.sum() < 0:\n    y = x * 2\nelse:\n    y = x * 3\nx = y + 1",
    "nested": "y = x\nif x.sum() < 0:\n    if x.max() > 1:\n        y = x * 2\n    y = y + 1\nx = y",
    "and, or, not": "y = x\nif not (x.sum() < 0 and x.max() > 1) or x.min() > 3:\n    y = x * 2\nx = x + y",
    "and with a plain flag": "y = x\nif x.sum() < 0 and self.training is False:\n    y = x * 2\nx = x + y",
    "no turn at all": "y = x\nif x.sum() > 1e9:\n    y = x * float('nan')\nx = y",
    "in a loop": "for i in (input_ids[0] > 7).nonzero():\n    if i[0] % 2 == 0:\n        y = x * 2\n    else:\n        y = x + i[0]\n    x = y / 2",
}


@pytest.mark.parametrize("name", BRANCHES)
def test_branches_become_loops_of_one_turn_or_none(name, tmp_path):
    same_both_ways(tmp_path, model(BRANCHES[name]), sizes=((2, 11), (1, 5), (1, 1), (3, 2)))


@pytest.mark.parametrize("statement", ["self.scale = 2", "self.register_buffer('b', x)", "parts.append(x)", "y.z = 1"])
def test_branches_that_change_objects_are_not_passed_over(statement, tmp_path):
    graph = read(tmp_path, model(f"parts = []\ny = self.embed\nif x.sum() > 0:\n    {statement}\nx = x + 1"))
    assert any("more than local names" in node.args[0] for node in graph.unknowns())


def test_a_value_that_leaves_a_loop_through_an_object_is_unknown(tmp_path):
    loop = "for i in (input_ids[0] > 7).nonzero():\n    self.keep(i)\n    parts.append(x * i[0])\nx = x + {}"
    source = model(loop, extra="").replace(
        "    def forward", "    def keep(self, i):\n        self.kept = i * 2\n\n    def forward"
    )
    for value in ("self.kept[0]", "parts[-1]"):
        graph = read(
            tmp_path,
            source.replace("{}", value).replace("        x = self.embed", "        parts = []\n        x = self.embed"),
        )
        assert any("inside a loop over data" in node.args[0] for node in graph.unknowns()), value


def test_numbers_of_a_tensor_as_sizes_of_pieces(tmp_path):
    """Tokens sorted by expert, cut where the next one's begin, and put back."""
    forward = """
    tokens, expert = x.reshape(-1, 8), (input_ids % 3).reshape(-1)
    counts = F.one_hot(expert, 3).sum(0).tolist()
    order = expert.argsort(stable=True)
    pieces = tokens[order].split(counts, dim=0)
    done = torch.cat([F.linear(pieces[i], self.weight[i]) for i in range(3)], dim=0)
    x = torch.zeros_like(tokens).index_add(0, order, done).view(x.shape)
    """
    same_both_ways(tmp_path, model(forward, init="self.weight = nn.Parameter(torch.empty(3, 8, 8))"))


def test_continue_that_only_the_data_decide_in_a_loop_over_a_list(tmp_path):
    graph = same_both_ways(
        tmp_path,
        model(
            "for i in range(3):\n    hit = input_ids % 5 == i\n    if not hit.any():\n        continue\n"
            "    y = x * hit[..., None]\n    x = x + y.sum() / hit.sum()"
        ),
    )
    assert [node.op for node in graph.nodes].count("loop") == 3


def test_continue_inside_of_another_branch_is_not_taken_for_one_of_the_turn(tmp_path):
    source = (
        "for i in range(3):\n    if i:\n        if x.sum() > i:\n            continue\n        x = x + 1\n    x = x * 2"
    )
    assert read(tmp_path, model(source)).unknowns()
