"""Case number n of a seed, as a folder: a configuration and modeling code, one or both mutated."""

from __future__ import annotations

import json
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from kunport.fuzz import configs, grammar, noise

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
    source, config = draw.choice(_seeds())
    data = source.encode()
    kind = draw.choice(("grammar", "grammar", "grammar", "bytes", "config", "config", "both"))
    if kind in ("grammar", "both"):
        data = grammar.mutate(source, draw).encode(errors="surrogatepass")
    if kind == "bytes":
        data = noise.mutate(data, draw)
    text = configs.mutate(config, draw) if kind in ("config", "both") else json.dumps(config)
    (folder / "config.json").write_bytes(noise.mutate(text.encode(), draw) if draw.random() < 0.02 else text.encode())
    modeling = folder / "modeling_case.py"
    modeling.write_bytes(data)
    return modeling if draw.random() < 0.1 else folder


@cache
def _seeds() -> list[tuple[str, dict[str, Any]]]:
    """Sources with configurations: small ones of our own, and real ones of the installed Transformers."""
    from kunport.analysis.library.installed import installation

    library = installation()
    found = []
    for path in sorted(Path(__file__).with_name("seeds").glob("*.txt")):
        found.append((path.read_text(), _config("Case", "case")))
    for model_type in REAL:
        path = library.root / "transformers" / "models" / model_type / f"modeling_{model_type}.py"
        source = path.read_text().replace("from ...", "from transformers.")
        source = source.replace("from .configuration", f"from transformers.models.{model_type}.configuration")
        architecture = library.causal[model_type]
        found.append((source, _config(architecture.removesuffix("ForCausalLM"), model_type)))
    return found


def _config(name: str, model_type: str) -> dict[str, Any]:
    classes = {"AutoModelForCausalLM": f"modeling_case.{name}ForCausalLM"}
    return {"architectures": [f"{name}ForCausalLM"], "model_type": f"{model_type}_case", "auto_map": classes, **SMALL}
