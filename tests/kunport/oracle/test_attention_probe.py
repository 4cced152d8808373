"""Toy attentions with known habits, found out by the probes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport.oracle.attention.label import label_attention
from kunport.oracle.config_fields import ConfigFields
from kunport.oracle.labels import Scope
from torch import Tensor, nn
from toy_attention import LENGTH, Attention, Habits, probe


def found(habits: Habits) -> Scope:
    torch.manual_seed(0)
    scope = Scope()
    module = Attention(habits)
    label_attention(probe(module, habits.heads * habits.head_dim), scope, ConfigFields())
    return scope


@pytest.mark.parametrize(
    ("habits", "key", "value"),
    [
        (Habits(), "attention.kind", "softmax"),
        (Habits(), "attention.heads", 4),
        (Habits(), "attention.kv_heads", 2),
        (Habits(), "attention.head_dim", 8),
        (Habits(), "attention.bias", []),
        (Habits(bias="qkvo"), "attention.bias", ["k", "o", "q", "v"]),
        (Habits(bias="qv"), "attention.bias", ["q", "v"]),
        (Habits(), "attention.packing", "separate"),
        (Habits(packing="kv"), "attention.packing", "kv"),
        (Habits(packing="concatenated"), "attention.packing", "qkv_concatenated"),
        (Habits(packing="per_group"), "attention.packing", "qkv_per_group"),
        (Habits(packing="per_group", kv_heads=4), "attention.packing", "qkv_per_head"),
        (Habits(packing="concatenated", clip=2.0), "attention.packing", "qkv_concatenated"),
        (Habits(clip=2.0), "attention.clip", 2.0),
        (Habits(clip=2.0), "attention.qk_norm", None),
        (Habits(), "attention.clip", None),
        (Habits(), "attention.qk_norm", None),
        (Habits(qk_norm="before"), "attention.qk_norm", "before_rope"),
        (Habits(qk_norm="after"), "attention.qk_norm", "after_rope"),
        (Habits(qk_norm="before", rope=""), "attention.qk_norm", "no_rope"),
        (Habits(qk_norm="before"), "attention.qk_norm_span", "head"),
        (Habits(qk_norm="after", span="all_heads"), "attention.qk_norm_span", "all_heads"),
        (Habits(gate="sigmoid"), "attention.gate", "sigmoid"),
        (Habits(), "attention.gate", None),
        (Habits(sinks=True), "attention.sinks", True),
        (Habits(slope=0.1), "attention.alibi", True),
        (Habits(slope=0.1, rope=""), "position.kind", "alibi"),
        (Habits(rope=""), "position.kind", "none"),
        (Habits(softcap=30.0), "attention.softcap", 30.0),
        (Habits(scale=1.0, query_scale=0.3), "attention.scale", 0.3),
    ],
)  # fmt: skip
def test_habit_is_found(habits: Habits, key: str, value: object) -> None:
    scope = found(habits)
    label = scope.values[key]
    assert label == (pytest.approx(value, rel=1e-4) if isinstance(value, float) else value), scope.absent


@given(
    st.sampled_from(["half", "interleaved"]),
    st.sampled_from([6, 8, 12]),
    st.sampled_from([1_000.0, 10_000.0, 500_000.0]),
    st.sampled_from(["", "before", "after"]),
    st.one_of(st.none(), st.integers(2, 13)),
    st.sampled_from(["window", "chunk"]),
    st.floats(0.05, 2.0),
    st.sampled_from([None, 20.0, 50.0]),
)
@settings(max_examples=5)
def test_habits_together_are_found(
    rope: str, dims: int, base: float, norm: str, size: int | None, limit: str, scale: float, softcap: float | None
) -> None:
    habits = Habits(
        head_dim=12, rope=rope, dims=dims, base=base, qk_norm=norm, scale=scale, softcap=softcap, **{limit: size}
    )
    scope = found(habits)
    assert scope.values["position.pairing"] == rope, scope.absent
    assert scope.values["position.dims"] == dims
    assert scope.values["position.base"] == pytest.approx(base, rel=1e-3)
    assert scope.values["position.scaling"] == "default"
    assert scope.values["attention.window"] == (size if limit == "window" else None)
    assert scope.values["attention.chunk"] == (size if limit == "chunk" else None)
    assert scope.values["attention.scale"] == pytest.approx(scale, rel=1e-3)
    assert scope.values["attention.softcap"] == (None if softcap is None else pytest.approx(softcap, rel=1e-3))


class Latent(nn.Module):
    """Keys and values from one projection of a small latent."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.down, self.up, self.o = (nn.Linear(32, 32), nn.Linear(32, 6), nn.Linear(6, 64), nn.Linear(32, 32))

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).view(1, LENGTH, 4, 8).transpose(1, 2)
        k, v = self.up(self.down(x)).view(1, LENGTH, 4, 16).transpose(1, 2).chunk(2, -1)
        mask = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
        return self.o(
            torch.matmul((q @ k.transpose(-1, -2) + mask).softmax(-1), v).transpose(1, 2).reshape(1, LENGTH, -1)
        )


def test_latent_keys_and_values_are_found() -> None:
    scope = Scope()
    label_attention(probe(Latent(), 32), scope, ConfigFields())
    assert scope.values["attention.kind"] == "mla"
    assert "attention.packing" not in scope.values
    assert "latent" in scope.absent["attention.packing"]


class Smoothed(Attention):
    """Query and key that mix neighbouring elements, which no probe knows."""

    def rotate(self, x: Tensor) -> Tensor:
        return x + 0.5 * x.roll(1, -1)


def test_what_a_probe_cannot_tell_has_no_label() -> None:
    torch.manual_seed(0)
    scope = Scope()
    label_attention(probe(Smoothed(Habits()), 32), scope, ConfigFields())
    assert "position.kind" not in scope.values
    assert "attention.scale" not in scope.values
    assert scope.absent["position"]
