"""Names that configuration source uses and that are simpler to give than to read."""

from __future__ import annotations

from kunport.analysis.interpreter import Interpreter
from kunport.analysis.intrinsics.registry import NAMES
from kunport.analysis.values import Instance, Native, NativeClass, Value

BASE = "PreTrainedConfig"


def _unchanged(interpreter: Interpreter, value: Value) -> Value:
    return value


def _validated_field(interpreter: Interpreter, *validator: Value, **options: Value) -> Value:
    """A dataclass field that only takes some values: its default is what matters here."""
    return interpreter.call(NAMES["dataclasses.field"], [], options) if "default" not in options else options["default"]


def _as_validated_field(interpreter: Interpreter, validator: Value) -> Value:
    return Native("validated_field", _validated_field, raw=True)


def _names(interpreter: Interpreter, this: Instance) -> list[Value]:
    return list(this.attributes)


def _attribute(interpreter: Interpreter, this: Instance, name: Value, *default: Value) -> Value:
    return interpreter.call(NAMES["builtins.getattr"], [this, name, *default], {})


def _nothing(interpreter: Interpreter, this: Instance) -> None:
    return None


# Members of the base class that step around overrides of ``__getattribute__`` (`Instance.renamed` stands for those),
# that are generators, or that only warn.
BASE_MEMBERS = {
    "validate_token_ids": Native(f"{BASE}.validate_token_ids", _nothing),
    "__iter__": Native(f"{BASE}.__iter__", _names),
    "_getattr_without_heterogeneous_validation": Native(f"{BASE}.getattr", _attribute),
}

NAMES.setdefault("typing_extensions.dataclass_transform", NAMES["huggingface_hub.dataclasses.strict"])
NAMES.setdefault("huggingface_hub.dataclasses.validated_field", Native("validated_field", _validated_field, raw=True))
NAMES.setdefault(
    "huggingface_hub.dataclasses.as_validated_field", Native("as_validated_field", _as_validated_field, raw=True)
)
NAMES.setdefault("transformers.utils.doc.copy_func", Native("copy_func", _unchanged, raw=True))
_hub = NAMES.setdefault("transformers.utils.hub.PushToHubMixin", NativeClass("transformers.utils.hub.PushToHubMixin"))
_hub.members.setdefault("push_to_hub", Native("push_to_hub", _unchanged, lazy=True))
