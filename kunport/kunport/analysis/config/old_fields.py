"""Fields that configurations of older versions of Transformers had, which custom code still reads."""

from __future__ import annotations

from typing import Any

from kunport_codegen.expression import field

from kunport.analysis.config.intrinsics import BASE
from kunport.analysis.config.own_class import ABOUT
from kunport.analysis.interpreter import Interpreter
from kunport.analysis.interpreter.attributes import MISSING, class_member
from kunport.analysis.values import Instance, SourceClass, is_subclass

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


def with_renamed_fields(
    interpreter: Interpreter, config: dict[str, Any], cls: SourceClass, raw: dict[str, Any]
) -> dict[str, Any]:
    """The configuration of custom code, with the fields of ``config.json`` that the class has renamed since."""
    renamed = class_member(interpreter, cls.mro, "attribute_map")
    aliases = renamed if isinstance(renamed, dict) else {}
    return {**{name: value for name, value in raw.items() if name not in {*aliases, *ABOUT}}, **config}


def add_old_defaults(interpreter: Interpreter, settings: Instance) -> None:
    """Gives a configuration object of custom code the defaults of the old base class that it has not itself."""
    if is_subclass(settings.cls, BASE):
        for name, value in _DEFAULTS.items():
            if name not in settings.attributes and class_member(interpreter, settings.cls.mro, name) is MISSING:
                # Whether weights are tied is a fact, and a checkpoint may say otherwise.
                settings.attributes[name] = field(name, value) if name == "tie_word_embeddings" else value
