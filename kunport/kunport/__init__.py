"""kunport ports Hugging Face models to vLLM: it reads their source, writes the adapter, and proves the numerics.

The verbs of the command line are functions here. Each imports what it needs when it is first called.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kunport.api import analyze, generate_adapter, merge_adapter, port, prove_weights, tiny, validate
    from kunport.errors import KunportError, NotPortableError

_ERRORS = ("KunportError", "NotPortableError")
__all__ = [
    "KunportError",
    "NotPortableError",
    "analyze",
    "generate_adapter",
    "merge_adapter",
    "port",
    "prove_weights",
    "tiny",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kunport import api, errors

    return getattr(errors if name in _ERRORS else api, name)
