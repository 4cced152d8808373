"""Operators: contracts, who implements them, and the choice between implementations.

``operators.rms_norm(x=x, weight=w, epsilon=1e-6)`` runs an operator by keyword with the implementation that the
policy gives, counts it, and returns its outputs, which it allocates where the caller gives none. Importing this
package imports nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


def __getattr__(name: str) -> Callable[..., Any]:
    """The operator of that name, as a function.

    Raises:
        AttributeError: there is none.
    """
    from kunport_runtime.operators.dispatch import call
    from kunport_runtime.operators.errors import UnsupportedOperatorError
    from kunport_runtime.operators.registry import registry

    if name.startswith("_"):
        raise AttributeError(name)
    try:
        registry.contract(name)
    except UnsupportedOperatorError as error:
        raise AttributeError(str(error)) from None
    function = partial(call, name)
    globals()[name] = function
    return function
