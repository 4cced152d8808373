import pytest
import torch
from kunport.tiny_models import build, find_case, randomize
from kunport.tiny_models.__main__ import check, main
from kunport.tiny_models.cases import read_table

# One of each kind: fused and separate QKV, experts, latent attention, state space, recurrence, linear attention,
# sub-configurations, a variant. `python -m kunport.tiny_models` runs all.
SAMPLE = ["llama:bias_tied_yarn", "gpt_neox", "gemma3_text", "mixtral", "deepseek_v3", "mamba2", "rwkv", "qwen3_next"]


@pytest.mark.parametrize("name", SAMPLE)
@pytest.mark.parametrize("engine", [False, True])
def test_a_case_builds_and_gives_finite_logits(name, engine):
    assert check(name, engine=engine) == ""


def test_the_same_seed_gives_the_same_weights_and_another_gives_others():
    first, second, other = (build(find_case("llama"), seed=seed)[1].state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_weights_have_the_dtype_asked_for():
    assert build(find_case("llama"), dtype="bfloat16")[1].dtype == torch.bfloat16


def test_no_tensor_is_left_constant():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.BatchNorm1d(8))
    torch.nn.init.zeros_(model[0].bias)
    torch.nn.init.normal_(model[0].weight, std=0.01)
    randomize(model)
    assert all(tensor.std() > 0 for tensor in model.state_dict().values() if tensor.numel() > 1)
    assert model[0].weight.std() > 0.03


def test_the_command_counts_what_passed(capsys):
    assert main(["llama"]) == 0
    assert capsys.readouterr().out.endswith("1 passed, 0 failed\n")


def test_the_command_fails_when_a_case_does(capsys, monkeypatch):
    monkeypatch.setitem(read_table("variants"), "llama:broken", {"num_attention_heads": 5})
    assert main(["llama:broken"]) == 1
    assert "FAIL llama:broken" in capsys.readouterr().out
