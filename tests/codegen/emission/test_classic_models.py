"""What is written for models of Transformers whose sources say common things in ways of their own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from kunport.api import analyze
from kunport.tiny_models import build_config, find_case
from kunport_codegen.emission import emit


@cache
def code(architecture: str) -> str:
    files = emit(analyze(architecture).graph)
    (name,) = (name for name in files if name.endswith(".py") and not name.startswith(("test_", "kernels")))
    return files[name]


@pytest.mark.parametrize(
    ("architecture", "lines"),
    [
        pytest.param(
            "GPT2LMHeadModel",
            [
                "weight.t()",
                '(".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight", ".mlp.c_proj.weight")',
                "self.c_attn = QKVParallelLinear(",
                "because it transposes c_attn and c_proj and c_fc",
            ],
            id="matrices that lie the other way round",
        ),
        pytest.param(
            "OPTForCausalLM",
            [
                "self.decoder = OPTDecoder(",
                'orig_to_new_prefix={"model.decoder.": "decoder."}',
                "self.embed_positions(positions + 2)",
            ],
            id="a module that only runs another, and positions that are a sum of ones",
        ),
        pytest.param(
            "CTRLLMHeadModel",
            [
                "nn.functional.embedding(positions, self.table)",
                '"table",',
                "self.ffn_0 = ColumnParallelLinear(",
                '"transformer.h.\\\\1.ffn_0.weight"',
            ],
            id="a table of waves, and layers that are called by numbers",
        ),
        pytest.param(
            "GPTJForCausalLM",
            ['rope_parameters={"rope_type": "default", "rope_theta": 10000, "rope_dim": config.rotary_dim},'],
            id="a rotation by numbers of the source's own",
        ),
        pytest.param(
            "CodeGenForCausalLM",
            [
                "self.qkv_proj = QKVParallelLinear(",
                "return weight.unflatten(0, (4, 3, -1))[:, [0, 2, 1]].transpose(0, 1).flatten(0, 2)",
                '"4 * (config.n_head // 4) == 16": True',
                "q, k, v = qkv.chunk(3, dim=-1)",
            ],
            id="a packing in blocks, and a rotation of a part of each head",
        ),
        pytest.param(
            "DiffLlamaForCausalLM",
            [
                '"""Attention (modeling_diffllama.py:189)."""',
                'prefix=f"{prefix}.attn_2"',
                "self.attn_2(q, k, hidden_states[1].repeat((1, 2, 1))",
                ")[layer_idx]",
                '"config.num_hidden_layers == 16": True',
            ],
            id="two attentions in a module, and a number of each layer",
        ),
        pytest.param(
            "Gemma4UnifiedForCausalLM",
            [
                "config = as_written(vllm_config.model_config.hf_config)",
                'config.per_layer_config[str(layer_idx).zfill(2)]["head_dim"]',
                'Gemma4UnifiedTextAttentionOther1(vllm_config, prefix=f"{prefix}.self_attn")',
            ],
            id="layers of one class with sizes and rotations of their own",
        ),
        pytest.param(
            "FalconForCausalLM",
            ["self.query_key_value = QKVParallelLinear(", "self.dense = RowParallelLinear("],
            id="products with a transpose, and a choice by a list of one",
        ),
        pytest.param(
            "ModernBertDecoderForCausalLM",
            [
                "if layer_idx != 0 else None",
                "self.embeddings_tok_embeddings = VocabParallelEmbedding(",
                "self.decoder = ParallelLMHead(",
                "self.logits_processor(self.decoder, self.lm_head(hidden_states), self.decoder.bias)",
            ],
            id="a module around the table, one before the head, and a layer that lacks a norm",
        ),
        pytest.param(
            "GPTNeoXJapaneseForCausalLM",
            [
                "bias=layer_idx == config.num_hidden_layers - 1",
                'attention.dense.bias"',
                "q, k, v = qkv.chunk(3, dim=-1)",
            ],
            id="a bias that another module holds, of the last layer alone",
        ),
        pytest.param(
            "NanoChatForCausalLM",
            ["= self.rotary_emb(positions)\n", "layer(hidden_states, residual, x, x_2)"],
            id="tables that all layers read, of which each stage makes its own",
        ),
        pytest.param(
            "AriaTextForCausalLM",
            ["is_fused_checkpoint_transposed=True,", 'experts\\\\.fc1\\\\.weight$"'],
            id="experts that lie the other way round",
        ),
        pytest.param(
            "GptOssForCausalLM",
            [
                '".mlp.experts.gate_up_proj", ".mlp.experts.down_proj", interleaved=True, transposed=True',
                "has_bias=True,",
                "swiglu_limit=config.swiglu_limit,",
                "because it takes apart experts.",
                "This adapter runs on one tensor-parallel rank: Experts",
            ],
            id="experts whose gate and up alternate, with biases",
        ),
        pytest.param(
            "OpenAIGPTLMHeadModel",
            ["self.attn(q, k, v)", "self.positions_embed(positions)"],
            id="a key that lies turned, a table that is cut, and an activation that all layers share",
        ),
    ],
)
def test_lines(architecture: str, lines: list[str]) -> None:
    missing = [line for line in lines if line not in code(architecture)]
    assert not missing, code(architecture)


def test_layers_that_are_told_apart_have_projections_of_one_name(tmp_path: Path) -> None:
    """Some rotate by tables for several axes of positions, and only what is called alike in all layers is packed."""
    config = build_config(find_case("cohere_compass_text"), engine=True)
    config.architectures = ["CohereCompassForCausalLM"]
    config.save_pretrained(tmp_path)
    written = emit(analyze(tmp_path).graph)["cohere_compass_text.py"]
    assert "class CohereCompassForCausalLM(nn.Module, TextPositions, " in written
    assert "positions = positions[0]" in written
    assert written.count("self.q_proj = ") == 2
    assert "QKVParallelLinear" not in written
