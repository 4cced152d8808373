"""An attention whose every habit is a field, to be found out by the probes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from kunport.oracle.attention.probe import Probe
from kunport.oracle.norm_form import NormForm, find_form
from kunport.oracle.watch import watch
from torch import Tensor, nn

LENGTH = 29


@dataclass(frozen=True)
class Habits:
    """What the toy attention does; ``packing`` is separate, kv, concatenated, per_group; ``qk_norm`` before, after, ""."""

    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    packing: str = "separate"
    bias: str = ""
    rope: str = "half"
    dims: int = 8
    base: float = 10_000.0
    window: int | None = None
    chunk: int | None = None
    scale: float = 0.25
    query_scale: float = 1.0
    softcap: float | None = None
    sinks: bool = False
    slope: float = 0.0
    qk_norm: str = ""
    span: str = "head"
    gate: str = ""
    clip: float | None = None


class RMS(nn.Module):
    """``weight * x / rms(x)``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Attention(nn.Module):
    """Softmax attention ``[1, sequence, heads * head_dim]`` to the same."""

    def __init__(self, habits: Habits) -> None:
        super().__init__()
        self.habits = h = habits
        width, kv_width = h.heads * h.head_dim, h.kv_heads * h.head_dim
        parts = {"separate": {"q": width, "k": kv_width, "v": kv_width}, "kv": {"q": width, "kv": 2 * kv_width}}
        for name, size in parts.get(h.packing, {"qkv": width + 2 * kv_width}).items():
            setattr(self, name, nn.Linear(width, size, bias=any(letter in h.bias for letter in name)))
        if h.qk_norm:
            self.q_norm = RMS(width if h.span == "all_heads" else h.head_dim)
            self.k_norm = RMS(kv_width if h.span == "all_heads" else h.head_dim)
        if h.gate:
            self.g = nn.Linear(width, width)
        if h.sinks:
            self.sink = nn.Parameter(torch.randn(h.heads))
        self.o = nn.Linear(width, width, bias="o" in h.bias)

    def project(self, x: Tensor) -> list[Tensor]:
        """Query, key and value ``[sequence, heads, head_dim]``."""
        h, length = self.habits, x.shape[1]
        kv_width = h.kv_heads * h.head_dim
        if h.packing == "separate":
            parts = [self.q(x), self.k(x), self.v(x)]
        elif h.packing == "kv":
            parts = [self.q(x), *self.kv(x).chunk(2, -1)]
        elif h.packing == "concatenated":
            parts = self.qkv(x).split([h.heads * h.head_dim, kv_width, kv_width], -1)
        else:
            ratio = h.heads // h.kv_heads
            groups = self.qkv(x).view(length, h.kv_heads, ratio + 2, h.head_dim)
            parts = [groups[:, :, :ratio], groups[:, :, -2], groups[:, :, -1]]
        if h.clip is not None:
            parts = [part.clamp(-h.clip, h.clip) for part in parts]
        return [part.reshape(length, -1, h.head_dim) for part in parts]

    def normalise(self, x: Tensor, norm: RMS) -> Tensor:
        """The norm over each head or over all heads together."""
        return norm(x.flatten(1)).view(x.shape) if self.habits.span == "all_heads" else norm(x)

    def rotate(self, x: Tensor) -> Tensor:
        """RoPE on the first ``dims`` elements."""
        h = self.habits
        if not h.rope:
            return x
        frequencies = h.base ** (-torch.arange(0, h.dims, 2) / h.dims)
        angles = torch.arange(len(x))[:, None] * frequencies
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        turning, resting = x[..., : h.dims], x[..., h.dims :]
        if h.rope == "half":
            left, right = turning.chunk(2, -1)
            return torch.cat([left * cos - right * sin, right * cos + left * sin, resting], -1)
        left, right = turning[..., 0::2], turning[..., 1::2]
        pairs = torch.stack([left * cos - right * sin, right * cos + left * sin], -1)
        return torch.cat([pairs.flatten(-2), resting], -1)

    def forward(self, x: Tensor) -> Tensor:
        h, length = self.habits, x.shape[1]
        q, k, v = self.project(x)
        if h.qk_norm == "before":
            q, k = self.normalise(q, self.q_norm), self.normalise(k, self.k_norm)
        q, k = self.rotate(q), self.rotate(k)
        if h.qk_norm == "after":
            q, k = self.normalise(q, self.q_norm), self.normalise(k, self.k_norm)
        ratio = h.heads // h.kv_heads
        q, k, v = (each.transpose(0, 1)[None] for each in (q * h.query_scale, k, v))
        k, v = k.repeat_interleave(ratio, 1), v.repeat_interleave(ratio, 1)
        scores = torch.matmul(q, k.transpose(-1, -2)) * h.scale
        if h.softcap is not None:
            scores = torch.tanh(scores / h.softcap) * h.softcap
        distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
        scores = scores - h.slope * distance * torch.arange(1, h.heads + 1)[:, None, None]
        seen = distance >= 0
        if h.window is not None:
            seen &= distance < h.window
        if h.chunk is not None:
            at = torch.arange(length) // h.chunk
            seen &= at[:, None] == at[None, :]
        scores = scores.masked_fill(~seen, float("-inf"))
        if h.sinks:
            scores = torch.cat([scores, self.sink.view(1, -1, 1, 1).expand(1, -1, length, 1)], -1)
        weights = scores.softmax(-1)[..., :length]
        out = torch.matmul(weights, v).transpose(1, 2).reshape(1, length, -1)
        return self.o(out * torch.sigmoid(self.g(x)) if h.gate else out)


def probe(module: nn.Module, width: int) -> Probe:
    """A probe of an attention that reads ``[1, LENGTH, width]``."""
    norms: dict[nn.Module, NormForm] = {}
    for each in module.modules():
        form = find_form(each, each.weight.shape) if isinstance(each, RMS) else None
        if form is not None:
            norms[each] = form
    with torch.no_grad(), watch(module, LENGTH) as record:
        module(torch.randn(1, LENGTH, width))
    return Probe(record.calls[0], LENGTH, norms)
