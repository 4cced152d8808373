"""Mixers by the operators of their family. Only the skeleton of each is built: what makes the family, in small."""

from __future__ import annotations

import pytest
from graph_builder import BATCH, SEQUENCE, GraphBuilder, Tensor
from kunport_codegen.recognition import recognize

WIDTH, KERNEL = 6, 3


def linear(build: GraphBuilder, x: Tensor, name: str) -> Tensor:
    return x.linear(build.parameter(name, WIDTH, WIDTH), None)


def convolved(build: GraphBuilder, x: Tensor) -> Tensor:
    kernel = build.parameter("conv", WIDTH, 1, KERNEL)
    turned = x.transpose(1, 2)
    return turned.conv1d(kernel, None, padding=KERNEL - 1, groups=WIDTH)[..., :SEQUENCE].transpose(1, 2)


def short_convolution(build: GraphBuilder, x: Tensor) -> Tensor:
    return linear(build, convolved(build, linear(build, x, "in") * x) * x, "out")


def decay(build: GraphBuilder, x: Tensor, *shape: int) -> Tensor:
    step = linear(build, convolved(build, x), "dt").softplus()
    return step[..., : shape[0]] * -build.parameter("A_log", *shape).exp()


def mamba(build: GraphBuilder, x: Tensor) -> Tensor:
    step = linear(build, convolved(build, x), "dt").softplus()
    state = step[..., None] * -build.parameter("A_log", WIDTH, 4).exp()
    return linear(build, (state.exp() @ build.parameter("C", 4, 1))[..., 0], "out")


def mamba2(build: GraphBuilder, x: Tensor) -> Tensor:
    return linear(build, decay(build, x, WIDTH).cumsum(dim=-1).exp() * x, "out")


def gated_delta(build: GraphBuilder, x: Tensor) -> Tensor:
    gates = decay(build, x, WIDTH).cumsum(dim=-1).exp()
    system = build.parameter("beta", WIDTH, WIDTH).tril()
    solved = build.apply("solve_triangular", system, gates.transpose(1, 2), upper=False)
    return linear(build, solved.transpose(1, 2), "out")


def rg_lru(build: GraphBuilder, x: Tensor) -> Tensor:
    gate = linear(build, convolved(build, x), "gate").sigmoid()
    a = (gate * build.parameter("Lambda", WIDTH).softplus() * -8.0).exp()
    return linear(build, x * (1.0 - a * a).sqrt() + a, "out")


def rwkv(build: GraphBuilder, x: Tensor) -> Tensor:
    key = linear(build, x, "key")
    most = build.apply("maximum", key, build.parameter("first", WIDTH) + key)
    mixed = (key - most).exp() * x / (key - most).exp()
    return linear(build, linear(build, x, "receptance").sigmoid() * mixed, "out")


def mlstm(build: GraphBuilder, x: Tensor) -> Tensor:
    forget = linear(build, x, "forget").logsigmoid()
    most = build.apply("maximum", forget, linear(build, x, "in"))
    scores = x @ x.transpose(1, 2)
    return linear(build, scores @ (forget - most).exp(), "out")


def fixed_decay(build: GraphBuilder, x: Tensor) -> Tensor:
    query, key = linear(build, x, "q"), linear(build, x, "k")
    positions = build.arange(SEQUENCE)
    decays = ((positions[:, None] - positions[None, :]) * -0.5).exp()
    return linear(build, (query @ key.transpose(1, 2) * decays) @ x, "out")


FAMILIES = {
    "short_convolution": short_convolution,
    "mamba": mamba,
    "mamba2": mamba2,
    "gated_delta": gated_delta,
    "rg_lru": rg_lru,
    "rwkv": rwkv,
    "mlstm": mlstm,
    "linear": fixed_decay,
}


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_family_is_known_by_its_operators(kind) -> None:
    build = GraphBuilder()
    x = build.parameter("x", BATCH, SEQUENCE, WIDTH)
    result = build.call(x, lambda x: FAMILIES[kind](build, x))
    (found,) = recognize(build.graph(result + x)).mixers
    assert (found.kind, found.input, found.output) == (kind, x.id, result.id)
    assert x.id not in found.nodes
    assert result.id in found.nodes
    assert build.nodes[-1].id not in found.nodes
    convolves = any(node.op == "conv1d" for node in build.nodes)
    assert (found.convolution, found.kernel) == (("conv", KERNEL) if convolves else (None, None))


def softmax_attention(build: GraphBuilder, x: Tensor) -> Tensor:
    query, key = linear(build, x, "q"), linear(build, convolved(build, x), "k")
    return linear(build, (query @ key.transpose(1, 2)).softmax(dim=-1) @ x, "out")


def attention_with_prepared_values(build: GraphBuilder, x: Tensor) -> Tensor:
    value = build.call(x, lambda x: short_convolution(build, x))
    return linear(build, (x @ x.transpose(1, 2)).softmax(dim=-1) @ value, "o")


NONE = {
    "attention with a convolution": softmax_attention,
    "attention that prepares its values": attention_with_prepared_values,
    "a gated network": lambda b, x: linear(b, linear(b, x, "gate").silu() * linear(b, x, "up"), "down"),
    "a softplus gate": lambda b, x: linear(b, linear(b, x, "gate").softplus() * x, "down"),
    "a learned decay": lambda b, x: linear(
        b, (linear(b, x, "q") @ x.transpose(1, 2) * b.parameter("d", SEQUENCE, SEQUENCE)) @ x, "out"
    ),
    "a convolution alone": convolved,
}


@pytest.mark.parametrize("name", NONE)
def test_others_are_no_mixer(name) -> None:
    build = GraphBuilder()
    x = build.parameter("x", BATCH, SEQUENCE, WIDTH)
    result = build.call(x, lambda x: NONE[name](build, x))
    assert recognize(build.graph(result + x)).mixers == []


def test_a_router_beside_a_convolution_is_no_attention() -> None:
    build = GraphBuilder()

    def layer(x: Tensor) -> Tensor:
        x = x + build.call(x, lambda x: short_convolution(build, x))
        return x * linear(build, x, "router").softmax(dim=-1)

    result = build.call(build.parameter("x", BATCH, SEQUENCE, WIDTH), layer)
    (found,) = recognize(build.graph(result)).mixers
    assert found.kind == "short_convolution"
