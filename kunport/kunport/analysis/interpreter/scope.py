"""Where names live while source runs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kunport.analysis.values import Function, SourceClass, Value

if TYPE_CHECKING:
    from kunport.analysis.names import Namespace


@dataclass(slots=True, eq=False)
class Scope:
    """The variables of a call, of a class body or (without ``parent``) of a module's top level.

    Attributes:
        namespace: the module that it belongs to.
        parent: the enclosing scope whose names are visible.
        function: the function that runs here, None outside of one.
        receiver: the call's first argument, for ``super()``.
        cls: the class whose body this is.
        yielded: what a generator has given so far, None before and in other functions.
        turn: the body of the loop that runs turn by turn, for a ``continue`` in it that only the data decide.
        given: fields of the configuration that decided that what runs now runs.
        picked: names of classes that fields of the configuration decided on, with the fields.
        outer: names declared ``nonlocal`` or ``global``, with the scope that they belong to.
    """

    namespace: Namespace
    parent: Scope | None = None
    variables: dict[str, Value] = field(default_factory=dict)
    function: Function | None = None
    receiver: Value = None
    cls: SourceClass | None = None
    yielded: list[Value] | None = None
    turn: Sequence[ast.stmt] = ()
    given: frozenset[str] = frozenset()
    picked: dict[str, frozenset[str]] = field(default_factory=dict)
    outer: dict[str, Scope] = field(default_factory=dict)

    @property
    def top(self) -> bool:
        return self.parent is None
