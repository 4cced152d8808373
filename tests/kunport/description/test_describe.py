import re
from dataclasses import replace
from functools import cache

import pytest
from kunport.description import Description, describe, name_layers

import kunport

DEPTH = {"gemma3_text": 12}  # two turns of its pattern; four layers show any other


@cache
def description(model: str) -> Description:
    return describe(kunport.analyze(model, config={"num_hidden_layers": DEPTH.get(model, 4)}).graph)


def lines(model: str, group: str) -> list[str]:
    """Each line of a group with its layers, and ``*`` where it is not what a Llama does."""
    found = description(model)
    return [
        f"{'' if line.usual else '* '}{line.text} [{name_layers(line.layers, found.layers)}]"
        for line in found.groups.get(group, ())
    ]


def test_a_llama_does_what_a_llama_does():
    found = description("llama")
    assert found.understood
    assert (found.layers, found.parameters) == (4, 4 * 202_383_360 + 2 * 32_000 * 4096 + 4096)
    assert all(line.usual for group in found.groups.values() for line in group)
    assert set(found.groups) == {"attention", "position", "norm", "MLP", "residual", "model"}


SAID = [
    ("mistral", "attention", "heads 32 (config.num_attention_heads), kv heads 8 (config.num_key_value_heads)"),
    ("mistral", "attention", "* window 4096 (config.sliding_window) [layers 0-3]"),
    ("gemma2", "attention", "* softcap: 50 (config.attn_logit_softcapping) [layers 0-3]"),
    ("granite", "attention", "* scale 1 (config.attention_multiplier) [layers 0-3]"),
    ("gemma2", "attention", "* window 4096 (config.layer_types, config.sliding_window) [every 2nd layer from 0]"),
    ("qwen2", "attention", "* bias: k, q, v"),
    ("phi3", "attention", "* packing: qkv_concatenated"),
    ("qwen3", "attention", "* qk norm: before_rope"),
    ("gpt_neox", "position", "dims 24 ("),
    ("glm4", "position", "* pairing: interleaved"),
    ("gemma3_text", "position", "base 1e+06 ("),
    ("gemma3_text", "position", "[every 6th layer from 5]"),
    ("smollm3", "position", "* kind: none"),
    ("qwen3", "norm", "* self_attn.q_norm, self_attn.k_norm: RMS norm of 128, epsilon 1e-06 (config.rms_norm_eps)"),
    ("olmo2", "norm", "weight applied in float32"),
    ("gemma2", "norm", "weight + 1"),
    ("cohere", "norm", "* input_layernorm: layer norm of 8192, epsilon 1e-05 (config.layer_norm_eps) ["),
    ("starcoder2", "norm", "epsilon 1e-05 (config.norm_epsilon), with a bias"),
    ("starcoder2", "MLP", "* activation: gelu_tanh"),
    ("starcoder2", "MLP", "* kind: plain"),
    ("starcoder2", "MLP", "* bias: yes"),
    ("glm4", "MLP", "* packing: fused"),
    ("mixtral", "experts", "* experts 8 (config.num_local_experts), top k 2 (config.num_experts_per_tok)"),
    ("mixtral", "experts", "* scoring: softmax"),
    ("mixtral", "experts", "* renormalize: yes"),
    ("mixtral", "experts", "* activation: silu"),
    ("olmo2", "residual", "* order: r A N + r M N +"),
    ("gemma2", "residual", "* order: r N A N + r N M N +"),
    ("cohere", "residual", "* order: r N A M + +"),
    ("gpt_neox", "residual", "* order: r N A N M + + (config.use_parallel_residual)"),
    ("gemma2", "embedding", "* scale 48 (config.hidden_size)"),
    ("gemma2", "head", "* tied yes (config.tie_word_embeddings)"),
    ("gemma2", "head", "* softcap: 30 (config.final_logit_softcapping)"),
    ("cohere", "head", "* scale 0.0625 (config.logit_scale)"),
]


@pytest.mark.parametrize(("model", "group", "said"), SAID)
def test_what_a_model_does_differently_is_said(model, group, said):
    assert any(said in line for line in lines(model, group)), lines(model, group)


@pytest.mark.parametrize("model", sorted({model for model, _, _ in SAID}))
def test_every_line_has_its_place_in_the_source_and_every_layer_its_residual(model):
    found = description(model)
    for line in (line for group in found.groups.values() for line in group):
        assert re.fullmatch(r"transformers/\S+\.py", line.where.file), line
        assert line.where.line > 0
    assert found.groups["residual"][0].key == "residual.order"


def test_nothing_is_left_without_a_name_in_the_first_slice():
    assert not any(lines(model, "operators without a name") for model in ("mixtral", "gemma3_text", "glm4", "gpt_neox"))


def test_an_operator_that_belongs_to_nothing_is_said_with_its_layers():
    graph = kunport.analyze("llama", config={"num_hidden_layers": 2}).graph
    graph.nodes = [replace(node, op="cumsum") if node.op == "silu" else node for node in graph.nodes]
    found = describe(graph)
    (line,) = found.groups["operators without a name"]
    assert (line.text, line.layers, line.usual) == ("cumsum", (0, 1), False)
    assert found.runs.answer == "runs as is"


def test_plain_data_says_the_verdict():
    data = description("olmo2").as_dict()
    assert data["verdict"] == "understood"
    assert data["groups"]["residual"][0]["where"]["line"] > 0
    assert data["facts"]["layers"][0]["facts"]["residual.order"]["value"] == "r A N + r M N +"
    assert data["runs"]["answer"] == "runs through a generated adapter"
    assert data["nearest"]["model_type"] == "olmo3"
    assert all(len(digest) == 64 for digest in data["sources"].values())
