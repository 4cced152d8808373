import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kunport_model_adapters.weights import single_experts, ungroup_qkv
from transformers import FalconConfig
from transformers.models.falcon.modeling_falcon import FalconAttention
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention, GPTNeoXConfig


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_rows_are_sorted(kv_heads, queries, head_size, bias):
    """Each row is its own name: group, place in the group, element."""
    names = torch.cartesian_prod(torch.arange(kv_heads), torch.arange(queries + 2), torch.arange(head_size))
    names = names.view(-1, 3)
    weight = names if not bias else names[:, 0] * 100 + names[:, 1] * 10 + names[:, 2]
    result = ungroup_qkv(weight, kv_heads * queries, kv_heads)
    expected = sorted(names.tolist(), key=lambda name: (max(name[1] - queries + 1, 0), *name))
    expected_rows = torch.tensor(expected).view(-1, 3)
    if bias:
        expected_rows = expected_rows[:, 0] * 100 + expected_rows[:, 1] * 10 + expected_rows[:, 2]
    assert torch.equal(result, expected_rows)


def test_it_is_how_gpt_neox_reads_its_projection():
    config = GPTNeoXConfig(hidden_size=32, num_attention_heads=4)
    weight, x = torch.randn(96, 32), torch.randn(5, 32)
    q, k, v = (x @ weight.T).view(5, 4, 3 * 8).chunk(3, dim=-1)  # as its forward does
    assert GPTNeoXAttention(config).query_key_value.weight.shape == weight.shape
    torch.testing.assert_close(x @ ungroup_qkv(weight, 4, 4).T, torch.cat([part.flatten(1) for part in (q, k, v)], -1))


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_it_is_how_falcon_reads_its_projection(kv_heads):
    config = FalconConfig(hidden_size=32, num_attention_heads=4, new_decoder_architecture=True, num_kv_heads=kv_heads)
    attention = FalconAttention(config, layer_idx=0)
    x, weight = torch.randn(1, 5, 32), attention.query_key_value.weight
    q, k, v = attention._split_heads(x @ weight.T)  # the library repeats keys and values for every query head
    q, k, v = (part.view(5, -1, 8) for part in (q, k, v))
    expected = torch.cat([q, k[:, :: 4 // kv_heads], v[:, :: 4 // kv_heads]], dim=1).flatten(1)
    torch.testing.assert_close(x[0] @ ungroup_qkv(weight, 4, kv_heads).T, expected)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_experts_are_handed_on_one_by_one(interleaved, transposed):
    """Each row is its own number: rows of an expert's gate, then of its up, wherever the checkpoint has them."""
    experts, size, hidden = 3, 4, 5
    gate = torch.arange(experts * size).reshape(experts, size)
    up = gate + 100
    rows = torch.stack((gate, up), dim=2).flatten(1) if interleaved else torch.cat((gate, up), dim=1)
    weight = rows[:, :, None].expand(experts, 2 * size, hidden)
    down = torch.arange(experts)[:, None, None].expand(experts, hidden, size)
    stored = {
        "h.0.moe.gate_up": weight.transpose(1, 2) if transposed else weight,
        "h.0.moe.gate_up_bias": rows,
        "h.0.moe.down": down.transpose(1, 2) if transposed else down,
        "h.0.norm.weight": torch.ones(hidden),
    }
    loaded = dict(
        single_experts(stored.items(), ".moe.gate_up", ".moe.down", interleaved=interleaved, transposed=transposed)
    )
    assert len(loaded) == 1 + experts * (2 + 2 + 1)
    for number in range(experts):
        for part, wanted in (("gate_proj", gate), ("up_proj", up)):
            assert torch.equal(loaded[f"h.0.moe.{number}.{part}.weight"][:, 0], wanted[number])
            assert torch.equal(loaded[f"h.0.moe.{number}.{part}.bias"], wanted[number])
        assert loaded[f"h.0.moe.{number}.down_proj.weight"].shape == (hidden, size)
        assert bool((loaded[f"h.0.moe.{number}.down_proj.weight"] == number).all())
