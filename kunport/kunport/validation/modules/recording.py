"""What the engine's modules received and returned, as plain tensors by module path.

Rows are tokens: every tensor of a recording is ``[rows, ...]``, with the request and the position of each row.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from pathlib import Path

import torch


@dataclass(slots=True)
class Call:
    """One module's calls, its tensors over all rows.

    Attributes:
        inputs, outputs: the floating-point tensors among its arguments and results that have a row for every token.
    """

    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]


@dataclass(frozen=True, slots=True)
class Definition:
    """A module's class, and where it is defined; "" and 0 where that is unknown."""

    kind: str
    file: str = ""
    line: int = 0


@dataclass(slots=True)
class Recording:
    """The engine's run over some requests.

    Attributes:
        request, position, token: of each row, ``[rows]``.
        calls: by the module's path in the adapter, in the order in which they returned.
        names: the checkpoint's tensor -> the adapter's parameter and the part of it (``q``, ``0``, ...; "" for all).
        definitions: of every module, also of those that were not called; "" is the whole model.
        sorted_rows: modules whose weight's rows the adapter brings in another order than the checkpoint's.
    """

    request: torch.Tensor
    position: torch.Tensor
    token: torch.Tensor
    calls: dict[str, Call] = field(default_factory=dict)
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    sorted_rows: list[str] = field(default_factory=list)
    definitions: dict[str, Definition] = field(default_factory=dict)

    @property
    def requests(self) -> list[int]:
        return sorted(set(self.request.tolist()))

    def rows(self, request: int) -> torch.Tensor:
        """The rows of a request by position, as far as they are without a gap."""
        rows = (self.request == request).nonzero()[:, 0]
        rows = rows[self.position[rows].argsort(stable=True)]
        gapless = self.position[rows] == torch.arange(len(rows))
        return rows[: int(gapless.cumprod(0).sum())]

    def caller(self, path: str) -> str:
        """The module whose code calls this one: its parent, lists of modules left out."""
        path = path.rpartition(".")[0]
        while path and self.kind(path) == "ModuleList":
            path = path.rpartition(".")[0]
        return path

    def kind(self, path: str) -> str:
        return self.definitions[path].kind if path in self.definitions else ""

    def save(self, path: Path) -> None:
        calls = {name: (call.inputs, call.outputs) for name, call in self.calls.items()}
        definitions = {name: astuple(definition) for name, definition in self.definitions.items()}
        torch.save((self.request, self.position, self.token, calls, self.names, self.sorted_rows, definitions), path)

    @classmethod
    def load(cls, path: Path) -> Recording:
        request, position, token, calls, names, sorted_rows, definitions = torch.load(
            path, weights_only=True, map_location="cpu"
        )
        return cls(
            request,
            position,
            token,
            {name: Call(*call) for name, call in calls.items()},
            names,
            sorted_rows,
            {name: Definition(*definition) for name, definition in definitions.items()},
        )
