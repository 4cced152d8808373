"""The residual skeleton of a layer: the order of norms, mixers and feed-forward parts, and what is added to what."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor, nn

from kunport.oracle.labels import Scope
from kunport.oracle.layer_parts import Event, find_events
from kunport.oracle.norm_form import NormForm
from kunport.oracle.structure import Layer
from kunport.oracle.watch import close

_EXACT = 2e-5


class _Story:
    """The tokens told so far, and the values that later parts may read.

    A token's place is a number, so that the ``r`` of a residual can be told after what follows it is known.
    """

    def __init__(self, start: Tensor) -> None:
        self.values: list[tuple[Tensor, float]] = [(start, 0.0)]
        self.unused: list[tuple[str, Tensor, float]] = []
        self.tokens: dict[float, str] = {}
        self.multipliers: list[float] = []
        self.place = 0.0

    def tell(self, token: str) -> None:
        """The next token."""
        self.place += 1.0
        self.tokens[self.place] = token

    def make(self, value: Tensor) -> None:
        """A value that the token just told made."""
        self.values.append((value, self.place))

    def reach(self, wanted: Tensor) -> bool:
        """Explain a value: known already, or a sum of a known one and one or two results that no sum used yet."""
        if any(close(wanted, value, _EXACT) for value, _ in self.values):
            return True
        for count in (1, 2):
            for value, place in reversed(self.values):
                for parts in combinations(self.unused[::-1], count):
                    if count == 2 and len({letter for letter, _, _ in parts}) == 1:
                        continue  # two of a kind side by side: the words for that differ
                    if min(made for _, _, made in parts) <= place:
                        continue  # what is kept was there before the branch
                    if self._add(wanted, value, place, [part for _, part, _ in parts]):
                        return True
        return False

    def _add(self, wanted: Tensor, kept: Tensor, place: float, parts: list[Tensor]) -> bool:
        columns = torch.stack([kept.flatten(), *(part.flatten() for part in parts)], 1).double()
        solution = torch.linalg.lstsq(columns, wanted.flatten()[:, None].double()).solution
        if not close((columns @ solution)[:, 0], wanted.flatten().double(), _EXACT):
            return False
        share, *factors = solution[:, 0].tolist()
        if abs(share - 1) > 1e-3 or min(abs(factor) for factor in factors) < 1e-4:
            return False
        self.tokens[place + 0.5] = "r"
        self.multipliers += factors
        for part in parts:
            self.tell("+")
            self.unused = [each for each in self.unused if each[1] is not part]
        self.make(wanted)
        return True

    def text(self) -> str:
        """The tokens in order."""
        return " ".join(self.tokens[place] for place in sorted(self.tokens))


def label_residual(layer: Layer, norms: dict[nn.Module, NormForm], mixers: set[nn.Module], scope: Scope) -> None:
    """Label order and multiplier where every value in the layer is explained."""
    start, end = layer.call.input, layer.call.result
    if start is None or end is None or start.shape != end.shape:
        scope.skip("residual", "the layer does not map one stream to itself")
        return
    story, before = _Story(start), None
    for event in find_events(layer, norms, mixers, start):
        if before is not None and "N" not in (before.letter, event.letter) and close(event.read, before.made, _EXACT):
            scope.skip("residual", "one part reads what another made: the words for that differ")
            return
        if event.letter == "?":
            scope.skip("residual", "a part besides the mixer reads other positions: the words for that differ")
            return
        before = event
        if event.bordered:
            scope.skip("residual", f"a part ({event.letter}) begins or ends with a norm of its own")
            return
        if not story.reach(event.read):
            scope.skip("residual", f"what a part ({event.letter}) reads is no sum of what was made before")
            return
        story.tell(event.letter)
        if event.last is not None and _adds_itself(story, event):
            story.unused.append((event.letter, event.last, story.place))
            if story.reach(event.made):
                continue
            story.unused.pop()
        story.make(event.made)
        story.unused.append((event.letter, event.made, story.place))
    if not story.reach(end) or not story.multipliers:
        scope.skip("residual", "what the layer puts out is no sum of what was made in it")
        return
    scope.label("residual.order", story.text())
    if max(story.multipliers) - min(story.multipliers) < 1e-3:
        scope.label("residual.multiplier", sum(story.multipliers) / len(story.multipliers))
    else:
        scope.skip("residual.multiplier", "the branches have multipliers of their own")


def _adds_itself(story: _Story, event: Event) -> bool:
    """Whether a part's result is a known value and its own last linear layer's result."""
    if event.last is None or close(event.last, event.made, _EXACT):
        return False
    return any(close(event.made - value, event.last, _EXACT) for value, _ in story.values)
