"""How the written model loads: what it leaves aside, and what it refuses because it reorders rows."""

from __future__ import annotations

import ast
import json
from functools import cache

import pytest
from decoders import Decoder, build
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport_codegen.emission import emit

REORDERED = [Decoder(projections="grouped"), Decoder(projections="reversed"), Decoder(gate="woven")]
IN_ORDER = [Decoder(), Decoder(projections="fused", gate="fused")]


def outer(decoder: Decoder, *ignored: str) -> tuple[dict[str, str], str]:
    """The files, and the outer model's source."""
    graph = build(decoder)
    graph.ignored = list(ignored)
    files = emit(graph)
    return files, files["tiny.py"].split("class TinyForCausalLM")[1]


def test_the_loader_is_told_what_to_leave_aside() -> None:
    _, code = outer(Decoder(), "attention.bias", r"^mtp\..*")
    (call,) = (
        node
        for node in ast.walk(ast.parse(f"class TinyForCausalLM{code}"))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "AutoWeightsLoader"
    )
    told = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    assert told == {"ignore_unexpected_prefixes": ["mtp."], "ignore_unexpected_suffixes": ["attention.bias"]}


def test_what_it_cannot_be_told_is_said() -> None:
    files, code = outer(Decoder(), r"h\.\d+\.bias")
    assert "ignore_unexpected" not in code
    assert json.loads(files["adapter.json"])["not_ignored"] == [r"h\.\d+\.bias"]
    assert "cannot be told so" in files["README.md"]
    assert r"`h\.\d+\.bias`" in files["README.md"]
    assert "cannot be told so" not in outer(Decoder(), "bias")[0]["README.md"]


HOSTILE = st.sampled_from(
    ("'", '"', "\\", "\n", "{{", "}", "#", "`", ")", "]", "__import__('os')", "\0", ".*", "^", ".")
)


@settings(max_examples=10, deadline=None)
@given(st.lists(HOSTILE | st.text(max_size=3), max_size=4).map("".join))
def test_an_expression_reaches_code_only_as_literals(pattern: str) -> None:
    """The code is that without it, but for what the loader is given, which is constants."""
    tree = ast.parse(emit_code(pattern))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "AutoWeightsLoader":
            assert all(isinstance(text, str) for keyword in node.keywords for text in ast.literal_eval(keyword.value))
            node.keywords = []
    assert ast.unparse(tree) == ast.unparse(ast.parse(emit_code()))


@cache
def emit_code(*ignored: str) -> str:
    return outer(Decoder(), *ignored)[0]["tiny.py"]


@pytest.mark.parametrize("decoder", REORDERED)
def test_where_rows_are_reordered_quantised_weights_are_refused_and_lora_is_not_promised(decoder: Decoder) -> None:
    files, code = outer(decoder)
    assert "self._sort_rows(" in code
    (model,) = (node for node in ast.parse(f"class TinyForCausalLM{code}").body if isinstance(node, ast.ClassDef))
    assert [ast.unparse(base) for base in model.bases] == ["nn.Module", "SupportsPP"]
    assert "embedding_modules" not in code
    init = next(node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    lines = [ast.unparse(statement) for statement in init.body]
    refusal = next(i for i, line in enumerate(lines) if line.startswith("if vllm_config.quant_config is not None:"))
    assert "raise AdapterError('This adapter takes no quantised weights" in lines[refusal]
    assert refusal < next(i for i, line in enumerate(lines) if "TinyModel(" in line)
    assert "no quantised weights and no LoRA" in files["README.md"]


@pytest.mark.parametrize("decoder", REORDERED)
def test_a_layer_that_is_packed_in_the_checkpoint_too_is_not_named_without_lora(decoder: Decoder) -> None:
    _, code = outer(decoder)
    packed = code.partition("packed_modules_mapping")[2].partition("\n\n")[0]
    assert '"query_key_value": ["query_key_value"]' not in packed
    assert '"gate_up_proj": ["gate_up_proj"]' not in packed


@pytest.mark.parametrize("decoder", IN_ORDER)
def test_where_rows_are_in_order_nothing_is_refused(decoder: Decoder) -> None:
    files, code = outer(decoder)
    assert "(nn.Module, SupportsLoRA, SupportsPP)" in code
    assert "quant_config is not None" not in code
    assert "no LoRA" not in files["README.md"]


def test_lora_is_told_of_layers_that_are_packed_in_the_checkpoint() -> None:
    """The engine adapts a packed layer only where the mapping has it, be it with its own name."""
    _, code = outer(Decoder(projections="fused", gate="fused"))
    mapping = ast.literal_eval(
        "{" + code.partition("packed_modules_mapping")[2].partition("{")[2].partition("}")[0] + "}"
    )
    assert len(mapping) == 2
    assert all(parts == [name] for name, parts in mapping.items())
