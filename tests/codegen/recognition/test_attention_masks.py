"""What hides keys from queries, or is added to their scores: masks, windows, biases, an indexer's choice."""

from __future__ import annotations

import pytest
from attending import plain_scores
from formulas import true_facts
from graph_builder import BATCH, FLOAT32, MODEL, SEQUENCE, GraphBuilder, Tensor
from kunport_codegen.graph import DType
from kunport_codegen.recognition import recognize


@pytest.mark.parametrize("fill", [-1e9, float("-inf")])
@pytest.mark.parametrize("operator", ["masked_fill", "where"])
def test_filling_what_a_constant_mask_hides(fill, operator) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    length = SEQUENCE
    kept = build.arange(length)[None, :].le(build.arange(length)[:, None])
    if operator == "where":
        scores = build.apply("where", kept, scores, fill)
    else:
        scores = scores.masked_fill(kept.bitwise_not(), fill)
    (found,) = true_facts(build.graph(scores.softmax(dim=-1) @ value)).attentions
    assert found.mask == "causal"


@pytest.mark.parametrize("compare", ["lt", "ge", "eq"])
def test_only_the_causal_mask_is_known_among_constant_ones(compare) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    kept = getattr(build.arange(SEQUENCE)[None, :], compare)(build.arange(SEQUENCE)[:, None])
    combined = build.apply("where", kept, scores, float("-inf")).softmax(dim=-1) @ value
    assert recognize(build.graph(combined)).attentions == []


BIASES = {
    "a parameter": lambda b: b.parameter("bias", BATCH, 2, SEQUENCE, SEQUENCE),
    "one row for all queries": lambda b: b.parameter("bias", 2, 1, SEQUENCE),
    "a shifted mask": lambda b: b.cat(b.mask("causal")[..., 1:], b.mask("causal")[..., :1]),
}


@pytest.mark.parametrize("name", BIASES)
def test_another_tensor_on_the_scores_is_a_bias(name) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    bias = BIASES[name](build)
    (found,) = true_facts(build.graph((scores + bias).softmax(dim=-1) @ value)).attentions
    assert (found.bias, found.alibi, found.selection, found.mask) == (bias.id, False, None, "bidirectional")


def alibi(build: GraphBuilder) -> Tensor:
    slopes = 1.0 / 2 ** (build.arange(1, 3, dtype=FLOAT32) * 0.5)
    return build.arange(-6, -1, dtype=FLOAT32).reshape((1, 1, SEQUENCE)) * slopes.reshape((2, 1, 1))


def test_alibi_under_a_mask_of_truths() -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    bias = alibi(build)
    hidden = build.mask("causal").to(DType("bool"))
    weights = (scores * 0.5 + bias).masked_fill(hidden, -3.4e38).softmax(dim=-1).to(MODEL)
    (found,) = true_facts(build.graph(weights @ value)).attentions
    assert (found.bias, found.alibi, found.mask, found.scale) == (bias.id, True, "causal", 0.5)


@pytest.mark.parametrize(("diagonal", "by_distance"), [(1, False), (1, True), (0, False)])
def test_alibi_that_hides_what_comes_later(diagonal, by_distance) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    bias = alibi(build)
    if by_distance:  # another number for each query, which its softmax does not see
        bias = bias - build.arange(SEQUENCE, dtype=FLOAT32).reshape((1, SEQUENCE, 1))
    bias = bias + build.apply("full", (SEQUENCE, SEQUENCE), -3e38).triu(diagonal)
    weights = (scores * 0.5 + bias).softmax(dim=-1).to(MODEL)
    (found,) = recognize(build.graph(weights @ value)).attentions
    causal = diagonal == 1
    assert (found.alibi, found.mask) == (causal, "causal" if causal else "bidirectional")


def test_equal_slopes_are_no_alibi() -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    bias = build.arange(SEQUENCE, dtype=FLOAT32).reshape((1, 1, SEQUENCE)) * build.apply("ones", (2, 1, 1))
    (found,) = true_facts(build.graph((scores + bias).softmax(dim=-1).to(MODEL) @ value)).attentions
    assert (found.bias, found.alibi) == (bias.id, False)


@pytest.mark.parametrize("whole", [True, False])
def test_keys_that_an_indexer_chose(whole) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    best = build.parameter("relevance", BATCH, SEQUENCE, SEQUENCE).topk(3)
    hidden = build.apply("ones", (BATCH, SEQUENCE, SEQUENCE), dtype=DType("bool")).scatter(-1, best.item(1), False)
    mask = build.mask("causal") if whole else build.parameter("bias", BATCH, 1, SEQUENCE, SEQUENCE)
    bias = mask.masked_fill(hidden.unsqueeze(1), -3.4e38)
    (found,) = true_facts(build.graph((scores + bias).softmax(dim=-1) @ value)).attentions
    assert (found.bias, found.selection) == (bias.id, best.id)
    assert found.mask == ("causal" if whole else "bidirectional")
    assert best.id in found.nodes


@pytest.mark.parametrize("window", [3, 20, None])
def test_a_mask_cut_out_of_a_larger_one_shows_its_window(window) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    kept = build.apply("ones", (64, 64), dtype=DType("bool")).tril()
    if window is not None:
        kept = build.apply("bitwise_xor", kept, kept.tril(-window))
    kept = kept.reshape((1, 1, 64, 64))[:, :, :SEQUENCE, :SEQUENCE]
    if window == 3:  # what is cut out shows it already
        filled = build.apply("where", kept, scores, -1e9)
        (found,) = true_facts(build.graph(filled.softmax(dim=-1) @ value)).attentions
        assert (found.mask, found.window) == ("sliding", 3)
        return
    filled = build.apply("where", kept, scores, -1e9) + build.mask("causal")
    (found,) = recognize(build.graph(filled.softmax(dim=-1) @ value)).attentions
    assert (found.mask, found.window) == (("sliding", window) if window else ("causal", None))


@pytest.mark.parametrize(("lowest", "known"), [(-1e4, True), (-100.0, False)])
def test_scores_multiplied_by_what_is_seen_and_filled_elsewhere(lowest, known) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    seen = build.apply("ones", (64, 64), dtype=MODEL).tril().reshape((1, 1, 64, 64))[:, :, :SEQUENCE, :SEQUENCE]
    filled = scores * 0.5 * seen + (1 - seen) * lowest
    graph = build.graph(filled.softmax(dim=-1) @ value)
    if known:
        (found,) = true_facts(graph).attentions
        assert (found.mask, found.scale) == ("causal", 0.5)
    else:
        assert recognize(graph).attentions == []


@pytest.mark.parametrize("window", [3, 4, 5, 6, 16, 4096])
def test_a_window_longer_than_what_is_tried_is_not_taken_for_none(window) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    queries, keys = build.arange(SEQUENCE).unsqueeze(1), build.arange(SEQUENCE).unsqueeze(0)
    kept = build.apply("bitwise_and", build.apply("le", keys, queries), build.apply("lt", queries - keys, window))
    filled = build.apply("where", kept, scores, -1e9)
    attentions = recognize(build.graph(filled.softmax(dim=-1) @ value)).attentions
    assert [(each.mask, each.window) for each in attentions] == ([("sliding", window)] if window < 5 else [])


def positions(build: GraphBuilder) -> tuple[Tensor, Tensor]:
    """Those of queries and of keys."""
    return build.arange(SEQUENCE)[:, None], build.arange(SEQUENCE)[None, :]


@pytest.mark.parametrize("size", [2, 64])
@pytest.mark.parametrize("filled", [True, False])
def test_chunks_by_hand(size, filled) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    (query, key), rest = positions(build), (build.apply("floor_divide", each, size) for each in positions(build))
    kept = key.le(query).bitwise_and(next(rest).eq(next(rest)))
    if filled:
        scores = scores.masked_fill(kept.bitwise_not(), -1e9)
    else:
        hidden = build.apply("full", (SEQUENCE, SEQUENCE), -1e9)
        scores = scores + build.apply("where", kept, 0.0, hidden)
    found = recognize(build.graph(scores.softmax(dim=-1) @ value)).attentions
    longer = [] if filled else ["bidirectional"]  # which does not show: nothing, or a bias that has no name
    masks = ["chunked"] if size == 2 else longer
    assert [fact.mask for fact in found] == masks


@pytest.mark.parametrize("width", [2, 64])
@pytest.mark.parametrize("causal", [True, False])
def test_a_mask_in_two_parts(width, causal) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    query, key = positions(build)
    near = (query - key).lt(width)
    scores = build.apply("where", near, scores, float("-inf"))
    if causal:
        scores = build.apply("where", key.gt(query), -1e9, scores)  # the other way round
    found = recognize(build.graph(scores.softmax(dim=-1) @ value)).attentions
    assert [(fact.mask, fact.window) for fact in found] == ([("sliding", 2)] if causal and width == 2 else [])


@pytest.mark.parametrize("mirrored", [True, False])
def test_alibi_by_distance_under_a_mask(mirrored) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    query, key = positions(build)
    distance = (query - key).to(FLOAT32)
    slopes = (1.0 / 2 ** (build.arange(1, 3, dtype=FLOAT32) * 0.5)).reshape((2, 1, 1))
    bias = build.apply("abs", distance) * slopes if mirrored else distance * distance * slopes
    weights = (scores + bias * -1.0).masked_fill(build.mask("causal").to(DType("bool")), -3.4e38).softmax(dim=-1)
    (found,) = recognize(build.graph(weights.to(MODEL) @ value)).attentions
    assert (found.alibi, found.mask) == (mirrored, "causal")
