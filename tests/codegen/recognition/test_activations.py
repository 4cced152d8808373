from __future__ import annotations

import math

import pytest
from formulas import true_facts
from graph_builder import GraphBuilder, Tensor
from kunport_codegen.expression import field
from kunport_codegen.recognition import activations, recognize
from kunport_codegen.recognition.evaluate import evaluate

SPELLINGS = {
    ("silu", "operator"): lambda x: x.silu(),
    ("silu", "spelled out"): lambda x: x * x.sigmoid(),
    ("gelu", "operator"): lambda x: x.gelu(),
    ("gelu", "spelled out"): lambda x: x * 0.5 * (1.0 + (x / math.sqrt(2.0)).erf()),
    ("gelu_tanh", "operator"): lambda x: x.gelu(approximate="tanh"),
    ("gelu_tanh", "spelled out"): lambda x: (
        0.5 * x * (1.0 + (math.sqrt(2.0 / math.pi) * (x + 0.044715 * x.pow(3.0))).tanh())
    ),
    ("gelu_tanh", "factored"): lambda x: x * 0.5 * (1.0 + (0.79788456 * x * (1 + 0.044715 * x * x)).tanh()),
    ("quick_gelu", "spelled out"): lambda x: x * (1.702 * x).sigmoid(),
    ("relu", "operator"): lambda x: x.relu(),
    ("relu2", "pow"): lambda x: x.relu().pow(2),
    ("relu2", "square"): lambda x: x.relu().square(),
}
OTHERS = {
    "a sigmoid alone": lambda x: x.sigmoid(),
    "a tanh alone": lambda x: x.tanh(),
    "a gate": lambda x: x * (-x).sigmoid(),
    "another slope": lambda x: x * (1.5 * x).sigmoid(),
    "a third power": lambda x: x.silu().pow(3),
    "a scaled activation": lambda x: 2.0 * (x * x.sigmoid()),
    "another constant in the approximation": lambda x: (
        0.5 * x * (1.0 + (math.sqrt(2.0 / math.pi) * (x + 0.05 * x.pow(3.0))).tanh())
    ),
}


@pytest.mark.parametrize(("name", "spelling"), SPELLINGS)
def test_each_spelling_is_one_activation(name, spelling) -> None:
    build = GraphBuilder()
    x = build.parameter("x", 4, 9)
    result = SPELLINGS[name, spelling](x)
    (found,) = true_facts(build.graph(result * build.parameter("up", 4, 9))).activations
    assert (found.name, found.input, found.output) == (name, x.id, result.id)
    assert found.nodes == {node.id for node in build.result.nodes if x.id < node.id <= result.id}


@pytest.mark.parametrize("name", OTHERS)
def test_a_near_miss_ends_at_what_is_one(name) -> None:
    build = GraphBuilder()
    result = OTHERS[name](build.parameter("x", 4, 9))
    found = true_facts(build.graph(result)).activations
    assert all(each.output != result.id for each in found)


def test_a_constant_of_the_configuration_is_no_part_of_a_formula() -> None:
    build = GraphBuilder({"alpha": 1.702})
    x = build.parameter("x", 4, 9)
    assert recognize(build.graph(x * (field("alpha", 1.702) * x).sigmoid())).activations == []


def test_gates_of_two_tensors_are_no_activation() -> None:
    build = GraphBuilder()
    x, gate = build.parameter("x", 4, 9), build.parameter("gate", 4, 9)
    assert recognize(build.graph(x * gate.sigmoid())).activations == []


@pytest.mark.parametrize("step", [lambda x: x + 1.0, lambda x: x.tanh(), lambda x: -x, lambda x: x + x])
def test_what_a_long_chain_costs_grows_with_its_length_alone(step, monkeypatch) -> None:
    evaluations = []
    monkeypatch.setattr(activations, "evaluate", lambda *args: evaluations.append(args) or evaluate(*args))

    def cost(length: int) -> int:
        evaluations.clear()
        build = GraphBuilder()
        x = build.parameter("x", 3).silu()
        for _ in range(length):
            x = step(x)
        (found, *_) = recognize(build.graph(x)).activations
        assert found.name == "silu"
        return len(evaluations)

    assert 0 < cost(200) <= 2.5 * cost(100)


def xielu(build: GraphBuilder, x: Tensor, name: str = "") -> Tensor:
    p, n, beta, lowest = (build.parameter(each, 1) for each in ("p", "n", "beta", "lowest"))
    line = beta * x
    rising = p.softplus() * x * x + line
    if name == "no square":
        rising = p.softplus() * x + line
    curve = build.apply("minimum", x, lowest).expm1() - (line if name == "another line" else x)
    falling = curve * (beta + n.softplus()) + line
    pair = (falling, rising) if name == "the other way round" else (rising, falling)
    return build.apply("where", x.gt(0), *pair)


def test_xielu_with_its_learned_slopes() -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2, 5, 8)
    result = xielu(build, x)
    (found,) = recognize(build.graph(result)).activations
    assert (found.name, found.input, found.output) == ("xielu", x.id, result.id)
    assert sum(node.op == "softplus" for node in build.nodes if node.id in found.nodes) == 2


@pytest.mark.parametrize("name", ["no square", "another line", "the other way round"])
def test_near_misses_of_xielu(name) -> None:
    build = GraphBuilder()
    assert recognize(build.graph(xielu(build, build.parameter("x", 2, 5, 8), name))).activations == []
