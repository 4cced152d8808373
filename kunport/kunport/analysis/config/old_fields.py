"""Fields that configurations of older versions of Transformers had, which custom code still reads."""

from __future__ import annotations

from typing import Any

from kunport.analysis.config.intrinsics import BASE
from kunport.analysis.interpreter import Interpreter
from kunport.analysis.interpreter.attributes import MISSING, class_member
from kunport.analysis.values import SourceClass, is_subclass

# What the base class of Transformers 4 gave to every configuration.
_DEFAULTS: dict[str, Any] = {
    "output_attentions": False,
    "use_cache": True,
    "use_return_dict": True,
    "torch_dtype": None,
    "torchscript": False,
    "use_bfloat16": False,
    "pruned_heads": {},
    "tie_word_embeddings": True,
    "is_decoder": False,
    "add_cross_attention": False,
    "cross_attention_hidden_size": None,
    "tie_encoder_decoder": False,
    "bos_token_id": None,
    "pad_token_id": None,
    "eos_token_id": None,
    "sep_token_id": None,
    "decoder_start_token_id": None,
}


def with_old_fields(
    interpreter: Interpreter, config: dict[str, Any], cls: SourceClass, raw: dict[str, Any]
) -> dict[str, Any]:
    """The configuration of custom code, with what today's base class drops.

    That is a field of ``config.json`` that the class has renamed since, and a default of the old base class. Nothing
    that the class itself has is replaced.
    """
    renamed = class_member(interpreter, cls.mro, "attribute_map")
    aliases = renamed if isinstance(renamed, dict) else {}
    defaults = _DEFAULTS if is_subclass(cls, BASE) else {}
    old = {**defaults, **raw}
    absent = {
        name: value
        for name, value in old.items()
        if name not in aliases and class_member(interpreter, cls.mro, name) is MISSING
    }
    return {**absent, **config}
