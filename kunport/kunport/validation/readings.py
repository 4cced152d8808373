"""The graphs of a model, read again where its source decides something on the length."""

from __future__ import annotations

from pathlib import Path

from kunport_codegen.graph import Graph

from kunport.analysis.assemble import LENGTH, read_target
from kunport.analysis.config import load_config
from kunport.analysis.decoding import Decoding, read_decoding
from kunport.analysis.library import locate
from kunport.validation.executor import misread


class Readings:
    """Graphs of one model. Each holds at the sizes for which `misread` finds nothing; further ones are made when asked.

    Args:
        model: as for `kunport.analyze`.
        whole: a graph without a cache that was read before.

    Raises:
        KunportError: the model cannot be read at all.
    """

    def __init__(self, model: str | Path, whole: Graph | None = None) -> None:
        self._target = locate(model)
        self._config = load_config(self._target)
        self._whole = [whole or read_target(self._target, self._config).graph]
        self._cached: list[Decoding | None] = []

    @property
    def decodes(self) -> bool:
        """Whether the model hands out a cache."""
        return self._decoding[0] is not None

    @property
    def count(self) -> int:
        """How many readings there are by now."""
        return len(self._whole) + len(self._cached)

    def unknowns(self) -> list[str]:
        """Where something was not understood, and why."""
        graphs = self._whole + [graph for each in self._decoding if each for graph in (each.prefill, each.step)]
        return list(dict.fromkeys(f"{node.where}: {node.args[0]}" for each in graphs for node in each.unknowns()))

    def whole(self, batch: int, length: int) -> Graph:
        """The graph without a cache."""
        found = next((each for each in self._whole if misread(each, batch, length) is None), None)
        if found is None:
            found = read_target(self._target, self._config, length).graph
            self._whole.append(found)
        return found

    def prefill(self, batch: int, length: int) -> Graph:
        """The graph that fills a cache."""
        for each in self._decoding:
            if each is not None and misread(each.prefill, batch, length) is None:
                return each.prefill
        return self._read(length).prefill

    def step(self, batch: int, past: int) -> Graph:
        """The graph that adds a token to ``past`` ones in the cache."""
        for each in self._decoding:
            if each is not None and misread(each.step, batch, 1, past) is None:
                return each.step
        return self._read(past).step

    @property
    def _decoding(self) -> list[Decoding | None]:
        """Read when first asked for: who compares without a cache need not wait for it."""
        if not self._cached:
            self._cached.append(read_decoding(self._target, self._config, LENGTH))
        return self._cached

    def _read(self, length: int) -> Decoding:
        found = read_decoding(self._target, self._config, length)
        assert found is not None, "a model has a cache at every length or at none"
        self._cached.append(found)
        return found
