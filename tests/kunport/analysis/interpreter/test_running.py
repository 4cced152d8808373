"""What a source does only while the model runs: chance and dropout are named, its own context managers followed."""

import pytest
from both_ways import model, read, same_both_ways

NAMED = {
    "dropout made in the forward": "x = nn.Dropout(0.5)(x)",
    "dropout switched on": "self.drop.train()\nx = self.drop(x)",
    "dropout switched on by its flag": "self.drop.training = True\nx = self.drop(x)",
    "the whole model switched on": "self.train()\nx = F.dropout(x, 0.5, self.training)",
    "a module made in the forward": "x = Noisy()(x)",
    "random numbers": "x = x + torch.randn_like(x)",
    "random numbers of a size": "torch.manual_seed(0)\nx = x * torch.rand(8)",
    "filled with random numbers": "x = x + torch.empty_like(x).uniform_()",
    "a weight set": "nn.init.constant_(self.linear.weight, 0.1)\nx = self.linear(x)",
    "a random weight": "nn.init.xavier_uniform_(self.linear.weight)\nx = self.linear(x)",
    "a context that yields twice": "with either():\n    x = x * FACTOR[0]",
}
EXTRA = """
from contextlib import contextmanager

FACTOR = [1.0]

@contextmanager
def doubled(by=2.0):
    FACTOR[0] = by
    yield by
    FACTOR[0] = 1.0

@contextmanager
def guarded():
    try:
        FACTOR[0] = 3.0
        yield
    finally:
        FACTOR[0] = 1.0

@contextmanager
def either():
    if FACTOR[0] > 1:
        yield 1
    else:
        yield 2

class Entered:
    def __init__(self, by):
        self.by = by

    def __enter__(self):
        FACTOR[0] = self.by
        return self

    def __exit__(self, *raised):
        FACTOR[0] = 1.0

class Noisy(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5, self.training)
"""
INIT = "self.drop = nn.Dropout(0.5)\nself.linear = nn.Linear(8, 8)\nnn.init.constant_(self.linear.weight, 0.1)"


@pytest.mark.parametrize("name", NAMED)
def test_what_differs_from_run_to_run_is_named(name, tmp_path):
    graph = read(tmp_path, model(NAMED[name], INIT, EXTRA))
    reasons = {node.args[0] for node in graph.unknowns()}
    named = ("outside of training", "while the model runs", "yields in more than one place")
    assert any(each in reason for reason in reasons for each in named), reasons


FOLLOWED = {
    "dropout that is off": "x = self.drop(x) + F.dropout(x, 0.5, self.training) + F.dropout(x, 0.0)",
    "dropout switched on and off": "self.drop.train()\nself.drop.eval()\nx = self.drop(x)",
    "an identity made in the forward": "x = nn.Identity()(x)",
    "before and after": "with doubled():\n    x = x * FACTOR[0]\nx = x * FACTOR[0]",
    "what is yielded": "with doubled(by=3.0) as by:\n    x = x * by * FACTOR[0]",
    "in an attempt": "with guarded():\n    x = x * FACTOR[0]\nx = x * FACTOR[0]",
    "one in the other": "with guarded(), doubled():\n    x = x * FACTOR[0]",
    "an object": "with Entered(5.0) as each:\n    x = x * each.by * FACTOR[0]\nx = x * FACTOR[0]",
    "a library's": "with torch.no_grad(), torch.autograd.set_grad_enabled(False):\n    x = x * FACTOR[0]",
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_is_the_same_in_every_run_is_followed(name, tmp_path):
    same_both_ways(tmp_path, model(FOLLOWED[name], INIT, EXTRA))


COUNTED = {
    "a module's": ("self.count = 0", "self.count += 1\nx = x * self.count"),
    "set from itself": ("self.count = 1", "self.count = self.count * 2\nx = x * self.count"),
    "a class's": ("", "Entered.count += 1\nx = x * Entered.count"),
    "a file's": ("", "global COUNT\nCOUNT += 1\nx = x * COUNT"),
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_number_that_each_run_changes_is_named(name, tmp_path):
    init, forward = COUNTED[name]
    graph = read(tmp_path, model(forward, init, EXTRA + "\nEntered.count = 0\nCOUNT = 0\n"))
    assert any("a number that each run of the model changes" in node.args[0] for node in graph.unknowns())


KEPT = {
    "not used": ("self.count = 0", "self.count += 1"),
    "started anew": ("self.count = 0", "self.count = 1\nself.count += 1\nx = x * self.count"),
    "a local": ("", "count = 1\ncount += 1\nx = x * count"),
    "set for later": ("self.seen = 0", "self.seen = x.shape[1]"),
}


@pytest.mark.parametrize("name", KEPT)
def test_numbers_of_one_run_are_followed(name, tmp_path):
    init, forward = KEPT[name]
    same_both_ways(tmp_path, model(forward, init))
