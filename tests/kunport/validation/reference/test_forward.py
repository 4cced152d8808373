"""The reference, on a real tiny model of Transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from kunport.validation.reference.forward import continue_greedily, prompt_logits
from transformers import LlamaConfig, LlamaForCausalLM

PROMPT = [5, 9, 11, 3]


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4
    )
    return LlamaForCausalLM(config).eval()


def test_greedy_tokens_are_those_of_generate(model: LlamaForCausalLM) -> None:
    expected = continue_greedily(model, PROMPT, prompt_logits(model, PROMPT), tokens=6)
    generated = model.generate(
        torch.tensor([PROMPT]), max_new_tokens=6, min_new_tokens=6, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    assert expected.tokens.tolist() == generated[0, len(PROMPT) :].tolist()


def test_rows_belong_to_the_positions_they_predict(model: LlamaForCausalLM) -> None:
    expected = continue_greedily(model, PROMPT, prompt_logits(model, PROMPT), tokens=3)
    assert expected.prompt.shape == (3, 40)
    assert expected.steps.shape == (3, 40)
    whole = prompt_logits(model, [*PROMPT, *expected.tokens.tolist()]).log_softmax(-1).numpy()
    np.testing.assert_allclose(expected.prompt, whole[:3], atol=1e-5)
    np.testing.assert_allclose(expected.steps, whole[3:6], atol=1e-5)
    np.testing.assert_allclose(np.exp(expected.steps).sum(-1), 1.0, atol=1e-5)


def test_a_prompt_of_one_token(model: LlamaForCausalLM) -> None:
    expected = continue_greedily(model, [7], prompt_logits(model, [7]), tokens=2)
    assert expected.prompt.shape == (0, 40)
    assert len(expected.tokens) == 2


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reference_that_is_not_finite_is_an_error(value: float) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4
    )
    broken = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        broken.model.embed_tokens.weight[11] = value
    assert prompt_logits(broken, [5, 9]).isfinite().all()
    with pytest.raises(ValueError, match=r"not finite, at position \d of 4 tokens"):
        prompt_logits(broken, PROMPT)


class RulesOut(torch.nn.Module):
    """Stands for a model that gives some tokens no probability at all; ``everything`` leaves none."""

    def __init__(self, everything: bool) -> None:
        super().__init__()
        self.everything = everything

    def forward(self, input_ids: torch.Tensor, use_cache: bool) -> torch.nn.Module:
        self.logits = torch.zeros(1, input_ids.shape[1], 6)
        self.logits[0, 1, : 6 if self.everything else 2] = -torch.inf
        return self


def test_ruling_tokens_out_is_allowed_but_not_all_of_them() -> None:
    assert prompt_logits(RulesOut(everything=False), [1, 2, 3]).shape == (3, 6)
    with pytest.raises(ValueError, match="at position 1"):
        prompt_logits(RulesOut(everything=True), [1, 2, 3])
