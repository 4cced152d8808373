from __future__ import annotations

from typing import Any

import pytest
from formulas import true_facts
from graph_builder import FLOAT32, MODEL, GraphBuilder, Tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport_codegen.expression import field
from kunport_codegen.facts import Norm
from kunport_codegen.graph import DType
from kunport_codegen.recognition import recognize

SQUARES = {"pow": lambda y: y.pow(2), "mul": lambda y: y * y, "square": lambda y: y.square()}
ROOTS = {
    "rsqrt": lambda y, root: y * root.rsqrt(),
    "sqrt": lambda y, root: y / root.sqrt(),
    "power": lambda y, root: root.pow(-0.5) * y,
    "half": lambda y, root: y / root.pow(0.5),
}


def spelled(
    x: Tensor, kind: str = "rms", square: str = "pow", root: str = "rsqrt", upcast: bool = True, epsilon: Any = 1e-6
) -> Tensor:
    """``y / sqrt(statistic + eps)``, in one of its spellings."""
    y = x.to(FLOAT32) if upcast else x
    if kind == "layer":
        y = y - y.mean(dim=-1, keepdim=True)
    squared = SQUARES[square](y)
    statistic = squared.sum(dim=-1, keepdim=True) if kind == "l2" else squared.mean(dim=-1, keepdim=True)
    return ROOTS[root](y, statistic + epsilon)


def weighted(build: GraphBuilder, y: Tensor, offset: float, cast: str, bias: bool) -> Tensor:
    weight = build.parameter("norm.weight", *y.kind.shape[-1:])
    y = y.to(MODEL) if cast == "before_weight" else y
    if cast == "after_weight" and offset:
        weight = weight.to(FLOAT32)
    y = y * (offset + weight) if offset else weight * y
    if bias:
        y = y + build.parameter("norm.bias", *y.kind.shape[-1:])
    return y.to(MODEL) if cast == "after_weight" else y


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(("rms", "layer", "l2")),
    square=st.sampled_from(sorted(SQUARES)),
    root=st.sampled_from(sorted(ROOTS)),
    cast=st.sampled_from(("before_weight", "after_weight", "none")),
    offset=st.sampled_from((0.0, 1.0)),
    bias=st.booleans(),
    size=st.integers(2, 9),
)
def test_each_spelling_is_the_norm_that_its_numbers_say(kind, square, root, cast, offset, bias, size):
    build = GraphBuilder()
    epsilon = field("rms_norm_eps", 1e-5)
    build.result.config["rms_norm_eps"] = 1e-5
    x = build.parameter("x", 2, 3, size)
    y = spelled(x, kind, square, root, upcast=cast != "none", epsilon=epsilon)
    result = weighted(build, y, offset, cast, bias)
    facts = true_facts(build.graph(result))
    (norm,) = facts.norms
    assert (norm.kind, norm.offset, norm.cast, norm.size) == (kind, offset, cast, size)
    assert (norm.input, norm.output) == (x.id, result.id)
    assert norm.epsilon == epsilon
    assert (norm.weight, norm.bias) == ("norm.weight", "norm.bias" if bias else None)
    computed = {node.id for node in build.result.nodes if node.op != "parameter"}
    assert norm.nodes == computed


def only_norm(build: GraphBuilder, result: Tensor) -> Norm:
    (norm,) = true_facts(build.graph(result)).norms
    return norm


def test_a_norm_without_weight_ends_at_its_cast() -> None:
    build = GraphBuilder()
    result = spelled(build.parameter("x", 2, 3, 8)).to(MODEL)
    norm = only_norm(build, result)
    assert (norm.weight, norm.output, norm.cast) == (None, result.id, "before_weight")


def test_the_squared_tensor_may_be_upcast_alone() -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2, 3, 8)
    result = (x * (x.to(FLOAT32).pow(2).mean(dim=-1, keepdim=True) + 1e-6).rsqrt()).to(MODEL)
    assert only_norm(build, result).input == x.id


def test_a_weight_serves_its_norm_only_where_nothing_else_reads_the_normalised_tensor() -> None:
    build = GraphBuilder()
    y = spelled(build.parameter("x", 2, 3, 8)).to(MODEL)
    weight = build.parameter("weight", 8)
    (norm,) = true_facts(build.graph(weight * y + y)).norms
    assert (norm.weight, norm.output) == (None, y.id)


def test_what_others_read_is_not_covered() -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2, 3, 8)
    upcast = x.to(FLOAT32)
    y = (upcast * (upcast.pow(2).mean(dim=-1, keepdim=True) + 1e-6).rsqrt()).to(MODEL)
    (norm,) = true_facts(build.graph(y, upcast)).norms
    assert norm.input == x.id
    assert upcast.id not in norm.nodes


def test_mean_removal_may_be_computed_twice() -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2, 3, 8)
    y = x.to(FLOAT32)
    mean = y.mean(dim=-1, keepdim=True)
    variance = (y - mean).pow(2).mean(dim=-1, keepdim=True)
    result = (build.parameter("w", 8).to(FLOAT32) * ((y - mean) * (variance + 1e-6).rsqrt())).to(MODEL)
    norm = only_norm(build, result)
    assert (norm.kind, norm.cast, norm.input) == ("layer", "after_weight", x.id)


@pytest.mark.parametrize("keywords", [{"unbiased": False}, {"correction": 0}])
def test_a_biased_variance_is_a_layer_norm(keywords) -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2, 3, 8)
    variance = x.var(dim=-1, keepdim=True, **keywords)
    assert only_norm(build, (x - x.mean(dim=-1, keepdim=True)) * (variance + 1e-6).rsqrt()).kind == "layer"


@pytest.mark.parametrize("keywords", [{}, {"unbiased": True}, {"correction": 1}])
def test_an_unbiased_variance_is_none(keywords) -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2, 3, 8)
    variance = x.var(dim=-1, keepdim=True, **keywords)
    result = (x - x.mean(dim=-1, keepdim=True)) * (variance + 1e-6).rsqrt()
    assert recognize(build.graph(result)).norms == []


@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_of_torch(bias) -> None:
    build = GraphBuilder()
    x, weight = build.parameter("x", 2, 3, 8), build.parameter("weight", 8)
    result = x.layer_norm((8,), weight, build.parameter("bias", 8) if bias else None, 1e-3)
    norm = only_norm(build, result)
    assert (norm.kind, norm.epsilon, norm.cast) == ("layer", 1e-3, "none")
    assert (norm.weight, norm.bias) == ("weight", "bias" if bias else None)


def test_layer_norm_of_torch_in_float32_without_weight() -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2, 3, 8)
    result = x.to(FLOAT32).layer_norm((8,), None, None, 1e-5).to(MODEL)
    norm = only_norm(build, result)
    assert (norm.input, norm.output, norm.weight) == (x.id, result.id, None)


def test_layer_norm_of_torch_with_an_offset_weight() -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2, 3, 8)
    norm = only_norm(build, x.layer_norm((8,), build.parameter("w", 8) + 1.0, build.parameter("b", 8), 1e-5))
    assert (norm.offset, norm.cast) == (1.0, "none")


def test_rms_norm_of_torch() -> None:
    build = GraphBuilder()
    norm = only_norm(build, build.parameter("x", 2, 3, 8).rms_norm((8,), build.parameter("w", 8), 1e-5))
    assert (norm.kind, norm.weight) == ("rms", "w")


def test_a_norm_of_split_heads_is_per_head() -> None:
    build = GraphBuilder()
    heads = build.parameter("x", 2, 3, 8).reshape((2, 3, 2, 4)).transpose(1, 2)
    norm = only_norm(build, weighted(build, spelled(heads), 0.0, "before_weight", False))
    assert norm.per_head
    assert norm.size == 4


def test_a_norm_before_the_split_is_not_per_head() -> None:
    build = GraphBuilder()
    normed = weighted(build, spelled(build.parameter("x", 2, 3, 8)), 0.0, "before_weight", False)
    assert not only_norm(build, normed.reshape((2, 3, 2, 4))).per_head


def test_what_is_upcast_and_stays_so_is_a_norm_of_the_upcast_tensor() -> None:
    build = GraphBuilder()
    upcast = build.parameter("x", 3, 3).to(FLOAT32)
    norm = only_norm(build, spelled(upcast, upcast=False) * build.parameter("w", 3))
    assert (norm.input, norm.cast, norm.weight) == (upcast.id, "none", "w")


@pytest.mark.parametrize("join", ["reshape", "flatten"])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_groups_that_are_normalised_apart_share_a_weight(join: str, offset: float) -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2, 3, 8)
    y = spelled(x.to(FLOAT32).reshape((2, 3, 2, 4)), upcast=False)
    y = y.flatten(-2) if join == "flatten" else y.reshape((2, 3, 8))
    weight = build.parameter("w", 8).to(FLOAT32)
    norm = only_norm(build, (y * (offset + weight if offset else weight)).to(MODEL))
    assert (norm.input, norm.weight, norm.offset, norm.cast) == (x.id, "w", offset, "after_weight")
    assert (norm.groups, norm.size, norm.per_head) == (2, 4, False)


def test_groups_without_a_weight_are_vectors_like_any() -> None:
    build = GraphBuilder()
    groups = build.parameter("x", 2, 3, 8).reshape((2, 3, 2, 4))
    norm = only_norm(build, spelled(groups, upcast=False).reshape((2, 3, 8)))
    assert (norm.groups, norm.size, norm.input) == (None, 4, groups.id)


def test_each_head_may_have_a_weight_of_its_own() -> None:
    build = GraphBuilder()
    heads = build.parameter("x", 2, 3, 8).reshape((2, 3, 2, 4))
    norm = only_norm(build, (spelled(heads) * build.parameter("w", 2, 4).to(FLOAT32)).to(MODEL))
    assert (norm.groups, norm.size, norm.per_head, norm.weight) == (2, 4, False, "w")


def near_misses() -> dict[str, Any]:
    """Name -> a formula that differs from a norm in one point."""
    root = lambda x: x.pow(2).mean(dim=-1, keepdim=True)  # noqa: E731
    return {
        "epsilon outside the root": lambda b, x: x * (root(x).sqrt() + 1e-6).reciprocal(),
        "epsilon added to the root": lambda b, x: x / (root(x).sqrt() + 1e-6),
        "clamped, not added": lambda b, x: x * root(x).clamp(min=1e-6).rsqrt(),
        "no epsilon": lambda b, x: x * root(x).rsqrt(),
        "epsilon is a tensor": lambda b, x: x * (root(x) + b.parameter("e", 1)).rsqrt(),
        "epsilon subtracted": lambda b, x: x * (root(x) - 1e-6).rsqrt(),
        "mean over another dimension": lambda b, x: x * (x.pow(2).mean(dim=0, keepdim=True) + 1e-6).rsqrt(),
        "mean over two dimensions": lambda b, x: x * (x.pow(2).mean(dim=(-1, -2), keepdim=True) + 1e-6).rsqrt(),
        "the dimension is dropped": lambda b, x: x * (x.pow(2).mean(dim=-1) + 1e-6).rsqrt(),
        "third power": lambda b, x: x * (x.pow(3).mean(dim=-1, keepdim=True) + 1e-6).rsqrt(),
        "absolute values": lambda b, x: x * (x.abs().mean(dim=-1, keepdim=True) + 1e-6).rsqrt(),
        "a product of two": lambda b, x: x * ((x * b.parameter("y", 3, 3)).mean(dim=-1, keepdim=True) + 1e-6).rsqrt(),
        "scales another tensor": lambda b, x: b.parameter("y", 3, 3) * (root(x) + 1e-6).rsqrt(),
        "divides by the inverse": lambda b, x: x / (root(x) + 1e-6).rsqrt(),
        "multiplies by the root": lambda b, x: x * (root(x) + 1e-6).sqrt(),
        "another power": lambda b, x: x * (root(x) + 1e-6).pow(-0.25),
        "maximum": lambda b, x: x * (x.pow(2).amax(dim=-1, keepdim=True) + 1e-6).rsqrt(),
        "only the square is centred": lambda b, x: x * (root(x - x.mean(dim=-1, keepdim=True)) + 1e-6).rsqrt(),
        "only the result is centred": lambda b, x: (x - x.mean(dim=-1, keepdim=True)) * (root(x) + 1e-6).rsqrt(),
        "cast down in between": lambda b, x: x.to(FLOAT32) * (root(x.to(FLOAT32)).to(MODEL) + 1e-6).rsqrt(),
        "layer norm of two dimensions": lambda b, x: x.layer_norm((3, 3), None, None, 1e-5),
        "layer norm with a computed weight": lambda b, x: x.layer_norm((3,), b.parameter("w", 3) * 2.0, None, 1e-5),
        "layer norm with a computed bias": lambda b, x: x.layer_norm((3,), None, b.parameter("b", 3) * 2.0, 1e-5),
        "rounded division": lambda b, x: x.div((root(x) + 1e-6).sqrt(), rounding_mode="floor"),
        "mean in another dtype": lambda b, x: (
            x * (x.pow(2).mean(dim=-1, keepdim=True, dtype=DType("float64")) + 1e-6).rsqrt()
        ).to(MODEL),
        "offset added in the model's dtype": lambda b, x: (spelled(x) * (1.0 + b.parameter("w", 3))).to(MODEL),
        "offset added in float32 after the cast": lambda b, x: (
            spelled(x).to(MODEL) * (1.0 + b.parameter("w", 3).to(FLOAT32))
        ),
    }


@pytest.mark.parametrize("name", near_misses())
def test_a_near_miss_is_no_norm(name) -> None:
    build = GraphBuilder()
    result = near_misses()[name](build, build.parameter("x", 3, 3))
    assert recognize(build.graph(result)).norms == []


def test_half_of_the_mean_removed_is_an_rms_norm_of_the_rest() -> None:
    build = GraphBuilder()
    x = build.parameter("x", 3, 3)
    centred = x.sub(x.mean(dim=-1, keepdim=True), alpha=0.5)
    norm = only_norm(build, spelled(centred, upcast=False))
    assert (norm.kind, norm.input) == ("rms", centred.id)


def test_half_a_bias_is_no_part_of_a_norm() -> None:
    build = GraphBuilder()
    y = spelled(build.parameter("x", 3, 3), upcast=False) * build.parameter("w", 3)
    (norm,) = true_facts(build.graph(y.add(build.parameter("b", 3), alpha=0.5))).norms
    assert (norm.bias, norm.output) == (None, y.id)


@pytest.mark.parametrize("shape", [(3, 1), (1,), ()])
def test_only_a_vector_is_a_weight(shape) -> None:
    build = GraphBuilder()
    y = spelled(build.parameter("x", 2, 3, 3), upcast=False)
    (norm,) = true_facts(build.graph(y * build.parameter("w", *shape))).norms
    assert norm.weight is None
    assert norm.output == y.id


@pytest.mark.parametrize("weighs", [True, False])
def test_the_root_alone_may_return_to_the_dtype_of_the_model(weighs) -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2, 5, 8)
    result = x * (x.to(FLOAT32).square().mean(dim=-1, keepdim=True) + 1e-6).rsqrt().to(MODEL)
    result = build.parameter("w", 8) * result if weighs else result
    (found,) = true_facts(build.graph(result)).norms
    assert (found.kind, found.cast, found.input, found.output) == ("rms", "root", x.id, result.id)
    assert found.weight == ("w" if weighs else None)


def test_a_root_that_others_read_too_is_no_norm() -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2, 5, 8)
    root = (x.to(FLOAT32).square().mean(dim=-1, keepdim=True) + 1e-6).rsqrt().to(MODEL)
    assert recognize(build.graph(x * root, root)).norms == []
