"""Loops over a range of sizes: one symbolic turn, right at every length."""

import pytest
from both_ways import model, same_both_ways

LENGTHS = ((2, 11), (1, 5), (3, 1), (2, 24))


def loops(graph):
    return [node for node in graph.walk() if node.op == "loop"]


def check(tmp_path, forward, count=1, **options):
    graph = same_both_ways(tmp_path, model(forward, **options), sizes=LENGTHS)
    assert len(loops(graph)) == count
    assert not any("unrolled" in note for note in graph.notes)
    return graph


def test_state_that_goes_from_token_to_token(tmp_path):
    graph = check(
        tmp_path, "y = torch.zeros_like(x[:, 0])\nfor t in range(x.shape[1]):\n    y = y * 0.5 + x[:, t]\nx = y"
    )
    assert len(graph.nodes) < 12


def test_tensor_that_every_turn_writes_a_part_of(tmp_path):
    forward = """
    y, out = x[:, 0] * 0, torch.zeros_like(x)
    for t in range(x.shape[1]):
        y = torch.tanh(y + x[:, t])
        out[:, t] = y
    x = out
    """
    check(tmp_path, forward)


@pytest.mark.parametrize("join", ["stack(parts, dim=1)", "stack(parts, -1)", "cat(parts, dim=-1)", "cat(parts)"])
def test_list_that_every_turn_appends_to(join, tmp_path):
    forward = f"""
    parts = []
    for t in range(x.size(1)):
        parts.append(torch.sigmoid(x[:, t]) * x[:, 0])
    x = torch.{join}
    """
    check(tmp_path, forward)


def test_chunks_of_tokens(tmp_path):
    forward = """
    size, length = 4, x.shape[1]
    chunks = (length + size - 1) // size
    padded = F.pad(x, (0, 0, 0, chunks * size - length))
    out, state = torch.zeros_like(padded), torch.zeros_like(x[:, 0])
    for c in range(chunks):
        part = padded[:, c * size : (c + 1) * size]
        out[:, c * size : (c + 1) * size] = part + state[:, None]
        state = state + part.sum(1)
    x = out[:, :length]
    """
    check(tmp_path, forward)


def test_loop_in_a_loop(tmp_path):
    forward = """
    out = torch.zeros_like(x)
    for b in range(x.shape[0]):
        y = x[b, 0] * 0
        for t in range(x.shape[1]):
            y = y * 0.5 + x[b, t]
            out[b, t] = y
    x = out
    """
    check(tmp_path, forward, count=2)


def test_zeros_that_become_wider(tmp_path):
    """A state that starts in the model's dtype and is float32 after the first turn."""
    forward = """
    y, rate = torch.zeros(x.shape[0], 8, dtype=x.dtype), self.rate.float()
    for t in range(x.shape[1]):
        y = y * rate + x[:, t].float()
    x = y
    """
    graph = check(tmp_path, forward, init="self.rate = nn.Parameter(torch.empty(8))")
    (loop,) = loops(graph)
    assert len(loop.body.carried) == 1


def test_range_with_a_start(tmp_path):
    check(tmp_path, "y = x[:, 0]\nfor t in range(1, x.shape[1]):\n    y = y - x[:, t]\nx = y")
