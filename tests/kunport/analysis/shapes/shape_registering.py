"""Where the modules beside this one register what they draw: calls of operators that torch accepts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from kunport_codegen.graph import DType

INT64, FLOAT32, FLOAT64 = DType("int64"), DType("float32"), DType("float64")
# Names of operators that take the same arguments -> a strategy of those arguments, positional and named.
CALLS: dict[str, st.SearchStrategy[Any]] = {}


def calls(names: str, strategy: st.SearchStrategy[Any]) -> None:
    CALLS[names] = strategy


def case(names: str) -> Any:
    """Registers a composite strategy; the decorated function draws (args, kwargs)."""

    def register(function: Any) -> Any:
        calls(names, st.composite(function)())
        return function

    return register


def only(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return strategy.map(lambda drawn: ((drawn,), {}))


def pair(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return strategy.map(lambda drawn: (tuple(drawn), {}))
