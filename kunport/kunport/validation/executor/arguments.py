"""From a node's arguments to what torch takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from kunport_codegen.expression import Expr, Scalar, evaluate, read_field, symbols_of
from kunport_codegen.graph import DType, Ref

from kunport.errors import KunportError


class Resolver:
    """Resolves scalars under one configuration and one set of sizes, dtypes under one model dtype."""

    def __init__(self, config: Mapping[str, Any], sizes: Mapping[str, int], model_dtype: torch.dtype) -> None:
        self._config = config
        self._model_dtype = model_dtype
        self._sizes = dict(sizes)
        self.given = frozenset(sizes)
        self._known: dict[str, Any] = {}  # by what is written: 1 and 1.0 are equal, and not the same

    def bind(self, shape: tuple[int | Scalar, ...], tensor: torch.Tensor) -> None:
        """Learns the sizes that only the data tell from a tensor that has them."""
        for size, actual in zip(shape, tensor.shape, strict=False):
            if isinstance(size, Scalar) and size.expr.op == "symbol" and size.expr.args[0] not in self.given:
                self._sizes[size.expr.args[0]] = actual

    def turn(self, variable: int, row: torch.Tensor) -> None:
        """Learns the number of a loop's turn, where its rows are numbers."""
        if row.dim() == 0 and not row.is_floating_point():
            self._sizes[f"turn_{variable}"] = int(row)

    def scalar(self, expr: Expr) -> Any:
        written = str(expr)
        if written in self._known:
            return self._known[written]
        try:
            value = evaluate(expr, lambda path: read_field(self._config, path), self._sizes)
        except (KeyError, IndexError, TypeError) as error:
            raise KunportError(
                f"The expression {expr} cannot be worked out: {error!r}.", "Give the configuration that was analysed."
            ) from error
        if symbols_of(expr) <= self.given:
            self._known[written] = value
        return value

    def dtype(self, dtype: DType) -> torch.dtype:
        found = self._model_dtype if dtype.name == "model" else getattr(torch, dtype.name)
        assert isinstance(found, torch.dtype)
        return found

    def argument(self, value: Any, tensors: Mapping[int, Any]) -> Any:
        """An argument with tensors in the place of references and numbers in the place of scalars."""
        match value:
            case Ref():
                return tensors[value.id]
            case Scalar():
                return self.scalar(value.expr)
            case DType():
                return self.dtype(value)
            case slice():
                return slice(*(self.argument(part, tensors) for part in (value.start, value.stop, value.step)))
            case tuple() | list():
                return type(value)(self.argument(item, tensors) for item in value)
            case dict():
                return {key: self.argument(item, tensors) for key, item in value.items()}
            case _:
                return value
