"""Names for the values of a forward method."""

from __future__ import annotations

from collections.abc import Iterable
from keyword import iskeyword

from kunport_codegen.emission.identifiers import identifier
from kunport_codegen.lowering.flow import Op, basename


class Names:
    """Which name stands for which value at the moment. A name is free once nothing reads its value any more."""

    def __init__(self, hints: dict[int, str], main: str) -> None:
        self.hints = hints
        self.main = main
        self.bound: dict[int, str] = {}

    def bind(self, value: int, name: str) -> str:
        """Give a value this name, taking it from any other."""
        self.bound = {other: taken for other, taken in self.bound.items() if taken != name}
        self.bound[value] = name
        return name

    def choose(self, step: Op, alive: set[int], returned: bool) -> list[str]:
        """Names for a step's results, none of them in use by a value that is still read."""
        chosen: list[str] = []
        for position, value in enumerate(step.results):
            taken = {name for other, name in self.bound.items() if other in alive and other not in step.results}
            taken.update(chosen)
            if value not in alive:
                chosen.append("_")
                continue
            options = list(self._options(step, value, position, returned))
            free = next((name for name in options if name not in taken), None)
            number = 2
            while free is None:
                free = f"{options[-1]}_{number}" if f"{options[-1]}_{number}" not in taken else None
                number += 1
            chosen.append(free)
        for value, name in zip(step.results, chosen, strict=True):
            if name != "_":
                self.bind(value, name)
        return chosen

    def _options(self, step: Op, value: int, position: int, returned: bool) -> Iterable[str]:
        if value in self.hints:
            yield identifier(self.hints[value])
        if step.name == "call" and step.member is not None:
            if returned and step.member.returns == "pair":
                yield "output"
            if "Norm" in step.member.factory:
                yield self.main
                yield "normed"
            elif step.member.returns == "pair":
                yield self.main
                what = step.member.name.removesuffix("_proj")
                yield identifier(step.member.name if iskeyword(what) else what)
        if step.name == "enter":
            yield self.main
            yield f"{identifier(basename(step.fact.path)).removeprefix('self_')}_output"
        if step.name not in ("call", "enter"):
            yield self.main
            yield "x" if self.main != "x" else "y"
        if step.member is not None:
            yield f"{identifier(step.member.name)}_output"
        yield f"value_{position}" if len(step.results) > 1 else "value"
