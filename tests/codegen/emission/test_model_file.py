"""The model file: what a reviewer would have written, and nothing that a source or configuration slips in."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest
from decoders import Decoder, build
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport_codegen.emission import emit
from kunport_codegen.expression import Expr, const
from kunport_codegen.graph import Guard, Location
from kunport_codegen.lowering import LoweringError

VARIANTS = {
    "pre": Decoder(),
    "post": Decoder(residual="post", norm="after", query_norm="full"),
    "sandwich": Decoder(residual="sandwich", norm="gemma", query_norm="head", embedding_scale=True, logits="cap"),
    "parallel": Decoder(residual="parallel", norm="layer", projections="grouped", gate="none", bias=True),
    "shared": Decoder(residual="shared", norm="bare", projections="reversed", gate="woven", logits="divide"),
    "mixed": Decoder(
        windows=(True, False, True), rotated=(True, True, False), tied=True, multiplier=True, plain=True, gate="fused"
    ),
    "torch": Decoder(activation="relu", gate="swapped", logits="scale", style="interleaved"),
}


@cache
def files(variant: str) -> Mapping[str, str]:
    return emit(build(VARIANTS[variant]))


@pytest.fixture(params=VARIANTS)
def code(request: pytest.FixtureRequest) -> str:
    return files(request.param)["tiny.py"]


def classes(code: str) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.parse(code).body if isinstance(node, ast.ClassDef)}


def test_a_layer_builds_the_mlp_that_the_configuration_gives_it() -> None:
    code = files("mixed")["tiny.py"]
    plain, gated = 'TinyPlainMLP(vllm_config, prefix=f"{prefix}.mlp")', 'TinyMLP(vllm_config, prefix=f"{prefix}.mlp")'
    assert {"TinyPlainMLP", "TinyMLP"} <= classes(code).keys()
    (made,) = [ast.unparse(node.value) for node in ast.walk(ast.parse(code)) if _assigns(node, "mlp")]
    choices = (f"{plain} if config.plain_layers[layer_idx] else {gated}", f"{gated} if config.plain_layers[layer_idx]")
    assert made.replace("'", '"').startswith(choices)


def _assigns(node: ast.AST, attribute: str) -> TypeGuard[ast.Assign]:
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return isinstance(target, ast.Attribute) and target.attr == attribute


def test_every_file_of_an_adapter_is_there() -> None:
    assert set(files("pre")) == {"tiny.py", "test_tiny.py", "README.md", "adapter.json"}


def test_the_same_graph_gives_the_same_bytes() -> None:
    assert emit(build(VARIANTS["mixed"])) == files("mixed") == emit(build(VARIANTS["mixed"]))


def test_the_code_is_clean_by_the_projects_own_rules(code: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    ruff = shutil.which("ruff", path=sysconfig.get_path("scripts")) or "ruff"
    (tmp_path / "tiny.py").write_text(code)
    for command in (["check"], ["format", "--check"]):
        arguments = [ruff, *command, "--no-cache", "--config", str(root / "pyproject.toml"), "tiny.py"]
        result = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


def test_classes_are_the_sources_in_the_order_of_use(code: str) -> None:
    names = list(classes(code))
    assert names[-2:] == ["TinyModel", "TinyForCausalLM"]
    assert set(names) <= {
        "TinyAttention",
        "TinyMLP",
        "TinyPlainMLP",
        "TinyLayer",
        "TinyModel",
        "TinyForCausalLM",
        "TinyNorm",
    }
    assert names.index("TinyAttention") < names.index("TinyLayer")


def test_a_prefix_is_the_path_of_the_attribute_that_it_is_given_for(code: str) -> None:
    for call in ast.walk(ast.parse(code)):
        if isinstance(call, ast.Assign) and isinstance(call.value, ast.Call):
            (target,) = call.targets
            for keyword in call.value.keywords:
                if keyword.arg == "prefix" and isinstance(keyword.value, ast.JoinedStr):
                    assert (
                        ast.unparse(keyword.value) == f"f'{{prefix}}.{ast.unparse(target).split('.')[-1].rstrip(')')}'"
                    )


def test_sizes_are_read_from_the_configuration(code: str) -> None:
    """No number in a constructor but those that are the same for every configuration."""
    for definition in classes(code).values():
        for call in ast.walk(definition):
            if isinstance(call, ast.Call) and "Linear" in ast.unparse(call.func):
                assert not re.search(r"(?<![\w.])\d{2,}", ast.unparse(call))


def test_nothing_is_imported_that_is_not_used_and_nothing_imported_twice(code: str) -> None:
    tree = ast.parse(code)
    imported = [
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    assert len(imported) == len(set(imported))
    body = code.split("class ", 1)[1]
    assert all(re.search(rf"\b{name}\b", body) for name in imported)


def test_annotations_are_objects_for_the_engines_compiler(code: str) -> None:
    assert "from __future__ import annotations" not in code
    assert "@support_torch_compile\nclass TinyModel" in code


def test_a_fused_norm_takes_and_returns_the_residual() -> None:
    code = files("pre")["tiny.py"]
    assert "hidden_states, residual = self.input_norm(hidden_states, residual)" in code
    assert 'IntermediateTensors({"hidden_states": hidden_states, "residual": residual})' in code


def test_layers_without_rotation_pass_query_and_key_on() -> None:
    code = files("mixed")["tiny.py"]
    assert "if self.rotary_emb is not None:\n            q, k = self.rotary_emb(positions, q, k)" in code


def test_guards_are_checked_before_anything_is_built() -> None:
    (model,) = (node for name, node in classes(files("pre")["tiny.py"]).items() if name == "TinyForCausalLM")
    init = next(node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    lines = [ast.unparse(statement) for statement in init.body]
    assert lines.index("check_guards(config, GUARDS)") < next(i for i, line in enumerate(lines) if "TinyModel(" in line)


def test_an_engine_set_for_latent_attention_is_refused_at_construction() -> None:
    graph = build(Decoder())
    written = emit(graph)
    assert "use_mla" not in written["tiny.py"]
    assert "VLLM_MLA_DISABLE" not in written["README.md"]
    graph.config["kv_lora_rank"] = 4
    written = emit(graph)
    code = written["tiny.py"]
    assert "    export VLLM_MLA_DISABLE=1\n" in written["README.md"]
    assert "if vllm_config.model_config.use_mla:\n            raise AdapterError(" in code
    assert "from kunport_model_adapters.errors import AdapterError" in code


def test_one_rank_only_is_said_at_construction() -> None:
    text = emit(build(Decoder(query_norm="full", norm="layer")))["tiny.py"]
    assert "if vllm_config.parallel_config.tensor_parallel_size > 1:\n            raise ValueError(" in text


HOSTILE = st.sampled_from(
    ("'", '"', "\\", "\n", "{", "}", "#", "`", "|", '"""', "'''", "__import__('os')", ")", "]", ";", "\r", "\0")
)


@settings(max_examples=15, deadline=None)
@given(st.lists(HOSTILE | st.text(max_size=3), min_size=1, max_size=4).map("".join))
def test_strings_of_a_configuration_reach_code_only_as_literals(text: str) -> None:
    """A hostile layer type, activation and file name are data in the adapter: its code has no other shape for them."""
    graph = build(Decoder(windows=(True, False, True)))
    graph.config["layer_types"] = [text, "full_attention", text]
    graph.guards = [Guard(Expr("eq", (Expr("field", ("hidden_act",)), const(text))), True, Location(text, 1))]
    graph.modules["model.layers.0"].where = Location(text, 2)
    plain = build(Decoder(windows=(True, False, True)))
    plain.guards = graph.guards
    plain.config["layer_types"] = ["y", "full_attention", "y"]
    if text == "full_attention":
        return
    shapes = [[type(node).__name__ for node in ast.walk(ast.parse(emit(each)["tiny.py"]))] for each in (graph, plain)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", ["x; import os", "os.system('x')", "class", "a b", "é", "", "../x"])
def test_names_that_are_no_names_are_refused(name: str) -> None:
    for change in ("architecture", "cls", "field", "attribute", "model_type"):
        graph = build(Decoder())
        if change == "architecture":
            graph.architecture = name
        elif change == "model_type":
            graph.model_type = name
        elif change == "cls":
            graph.modules["model.layers.2.mlp"].cls = name
            graph.modules["model.layers.0.mlp"].cls = name
        elif change == "field":
            for node in graph.nodes:
                if node.op == "mask":
                    node.op, node.args = "mask", ("sliding", _scalar(name))
        else:
            for node in graph.nodes:
                node.args = tuple(
                    arg.replace("o_proj", name) if isinstance(arg, str) and node.op == "parameter" else arg
                    for arg in node.args
                )
            graph.parameters = {path.replace("o_proj", name): parameter for path, parameter in graph.parameters.items()}
        with pytest.raises(LoweringError):
            emit(graph)


def _scalar(name: str) -> object:
    from kunport_codegen.expression import field

    return field(name, 3)
