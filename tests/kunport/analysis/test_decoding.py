"""Models with a cache of their own: the run that fills it and the step that goes on from it, against torch."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from kunport.analysis.assemble import construct
from kunport.analysis.decoding import Decoding, decode
from kunport.analysis.source import Root
from kunport.validation.executor import advance

HEAD = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.scale = torch.ones(8) * 2

    def forward(self, input_ids, state=None, use_cache=False):
        x = self.embed(input_ids)
"""
KEYS = """
        keys = x if state is None else torch.cat([state["keys"], x], dim=1)
        logits = x @ keys.transpose(1, 2) @ keys
        state = {"keys": keys}
"""
WINDOW = """
        keys = x if state is None else torch.cat([state[0], x], dim=1)
        seen = x.shape[1] if state is None else state[1] + x.shape[1]
        logits = keys.sum(1, keepdim=True).expand(x.shape) * seen
        state = [keys[:, -3:], seen]
"""
IN_PLACE = """
        if state is None:
            state = [torch.zeros(x.shape[0], 8)]
        state[0].mul_(0.5).add_(x.sum(1))
        logits = x + state[0][:, None]
"""
OWN = """
        self.scale = self.scale.to(torch.float64).to(x.dtype)
        total = x.sum(1) if state is None else state[0] + x.sum(1)
        logits = (x + total[:, None]) * self.scale
        state = (total,)
"""
IN_THE_MODULE = """
        past = 0 if state is None else self.total
        self.total = x.sum(1) + past
        logits = x + self.total[:, None]
        state = [x.shape[1] if state is None else state[0] + 1]
"""
FLAG = """
        first = state is None or state["first"]
        total = x.sum(1) if first else state["total"] + x.sum(1)
        logits = x + total[:, None]
        state = {"total": total, "first": state is None}
"""
RETURN = """
        return {"logits": logits, "state": state if use_cache else None}
"""


def read(folder: Path, body: str) -> tuple[Decoding | None, torch.nn.Module]:
    source = HEAD + body + RETURN
    (folder / "modeling_sample.py").write_text(source)
    made = ModuleType("modeling_sample")
    exec(compile(source, "modeling_sample.py", "exec"), made.__dict__)
    return decode(construct("modeling_sample", "Model", [Root(folder)], {}, None)), made.Model(SimpleNamespace())


@pytest.mark.parametrize("body", [KEYS, WINDOW, IN_PLACE, OWN, IN_THE_MODULE])
@pytest.mark.parametrize("length", [1, 7])
def test_steps_go_on_from_the_prefill(body: str, length: int, tmp_path: Path) -> None:
    decoding, model = read(tmp_path, body)
    assert decoding is not None
    assert not decoding.prefill.unknowns() + decoding.step.unknowns()
    assert list(decoding.prefill.states) == list(decoding.step.states)
    tensors = {name: each.detach() for name, each in model.named_parameters()}
    tokens = torch.randint(16, (3, length + 5), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(tokens[:, :length], use_cache=True)
        logits, cache = advance(decoding.prefill, tensors, tokens[:, :length])
        assert torch.equal(logits, expected["logits"])
        for place in range(length, length + 5):
            token = tokens[:, place : place + 1]
            expected = model(token, state=expected["state"], use_cache=True)
            logits, cache = advance(decoding.step, tensors, token, cache)
            assert torch.equal(logits, expected["logits"])
            assert cache.past == place + 1


def test_a_cache_that_the_first_step_changes_is_not_taken_for_one_that_all_steps_find(tmp_path: Path) -> None:
    decoding, _ = read(tmp_path, FLAG)
    assert decoding is not None
    assert not decoding.prefill.unknowns()
    assert [node.args[0] for node in decoding.step.unknowns()] == [
        "a cache that a step leaves in another form than it was"
    ]


def test_a_model_without_a_cache(tmp_path: Path) -> None:
    decoding, _ = read(tmp_path, "        logits, state = x, None")
    assert decoding is None
