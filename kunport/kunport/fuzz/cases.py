"""Case number n of a seed, as a folder: a configuration and mostly modeling code, one or both mutated."""

from __future__ import annotations

import json
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from kunport.analysis.library.installed import installation
from kunport.fuzz import configs, grammar, noise

# Shares of costly cases: a configuration of an installed model, and a mutated copy of its source. Others are small.
_INSTALLED, _LARGE = 0.02, 0.03
# Model types whose real modeling files are mutated: attention and packings of every kind, experts, recurrences.
REAL = ("llama", "gpt2", "gpt_neox", "bloom", "mixtral", "gemma2", "phi3", "olmo2", "deepseek_v3", "mamba", "falcon")
SMALL = {
    "hidden_size": 32,
    "vocab_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "num_local_experts": 4,
    "n_routed_experts": 8,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}


def write_case(number: int, seed: int, folder: Path) -> Path:
    """Empty the folder, write the case into it, and return what to analyse: the folder, or its modeling file alone."""
    draw = random.Random(f"{seed}/{number}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    chance = draw.random()
    if chance < _INSTALLED:
        (folder / "config.json").write_text(configs.mutate({**draw.choice(_installed()), **SMALL}, draw))
        return folder
    sources = _real() if chance < _INSTALLED + _LARGE else _small()
    (source, config), *_ = draw.choices(sources, [len(source) ** -2 for source, _ in sources])
    data = source.encode()
    kind = draw.choice(("grammar", "grammar", "grammar", "bytes", "config", "config", "both"))
    if kind in ("grammar", "both"):
        data = grammar.mutate(source, draw).encode(errors="surrogatepass")
    if kind == "bytes":
        data = noise.mutate(data, draw)
    text = configs.mutate(config, draw) if kind in ("config", "both") else json.dumps(config)
    (folder / "config.json").write_bytes(noise.mutate(text.encode(), draw) if draw.random() < 0.02 else text.encode())
    if draw.random() < 0.1:  # over two files, each of which may import from the other
        other = "from .modeling_case import *\n" + grammar.mutate(draw.choice(_small())[0], draw)
        (folder / "parts.py").write_bytes(other.encode(errors="surrogatepass"))
        data = b"from .parts import *\n" + data
    modeling = folder / "modeling_case.py"
    modeling.write_bytes(data)
    return modeling if draw.random() < 0.1 else folder


@cache
def _small() -> list[tuple[str, dict[str, Any]]]:
    """Sources of our own, with the fields that each reads."""
    found = []
    for path in sorted(Path(__file__).with_name("seeds").glob("*.txt")):
        source = path.read_text()
        read = {name: value for name, value in SMALL.items() if name in source}
        found.append((source, {**_names("Case", "case"), **read}))
    return found


@cache
def _real() -> list[tuple[str, dict[str, Any]]]:
    """Sources of the installed Transformers, with configurations."""
    library = installation()
    found = []
    for model_type in REAL:
        path = library.root / "transformers" / "models" / model_type / f"modeling_{model_type}.py"
        source = path.read_text().replace("from ...", "from transformers.")
        source = source.replace("from .configuration", f"from transformers.models.{model_type}.configuration")
        name = library.causal[model_type].removesuffix("ForCausalLM")
        found.append((source, {**_names(name, model_type), **SMALL}))
    return found


@cache
def _installed() -> list[dict[str, Any]]:
    """What configurations call models whose source is the installed one."""
    causal = installation().causal
    return [{"architectures": [causal[model_type]], "model_type": model_type} for model_type in REAL]


def _names(name: str, model_type: str) -> dict[str, Any]:
    classes = {"AutoModelForCausalLM": f"modeling_case.{name}ForCausalLM"}
    return {"architectures": [f"{name}ForCausalLM"], "model_type": f"{model_type}_case", "auto_map": classes}
