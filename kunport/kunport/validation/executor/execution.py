"""Running a graph: node by node, only what the results need, each value freed after its last use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import torch
from kunport_codegen.expression import symbols_of
from kunport_codegen.graph import Body, Graph, Guard, Node, refs

from kunport.errors import KunportError

from .arguments import Resolver
from .dependencies import needed, reads
from .masks import additive_mask
from .operators import call


def execute(
    graph: Graph, tensors: Mapping[str, torch.Tensor], input_ids: torch.Tensor, *, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """The logits ``[batch, sequence, vocabulary]`` that a graph computes.

    Args:
        graph: as the analysis made it; it need not have been analysed at these sizes.
        tensors: the state by module path, on the device of ``input_ids``; of tied tensors one is enough.
        input_ids: token ids ``[batch, sequence]``, int64.
        dtype: what the dtype ``model`` stands for, and what its tensors are cast to; the tensors' own if None.

    Raises:
        KunportError: a tensor is missing, or the logits depend on what the analysis did not understand.
    """
    (output,) = refs(graph.output)
    logits: torch.Tensor = execute_nodes(graph, tensors, input_ids, [output], dtype=dtype)[output]
    return logits


def execute_nodes(
    graph: Graph,
    tensors: Mapping[str, torch.Tensor],
    input_ids: torch.Tensor,
    ids: Iterable[int],
    *,
    dtype: torch.dtype | None = None,
) -> dict[int, Any]:
    """The values of the named nodes: tensors, or tuples of them where an operator has several results.

    A node in a loop's body has the value of the last turn that reached it. See `execute` for the arguments.
    """
    wanted = set(ids)
    found: dict[int, Any] = {}
    for node, value in steps(graph, tensors, input_ids, wanted, dtype=dtype):
        if node.id in wanted:
            found[node.id] = value
    return found


def steps(
    graph: Graph,
    tensors: Mapping[str, torch.Tensor],
    input_ids: torch.Tensor,
    ids: Collection[int],
    *,
    dtype: torch.dtype | None = None,
    states: Mapping[str, torch.Tensor] | None = None,
    past: int = 0,
) -> Iterator[tuple[Node, Any]]:
    """Each node that the named ones need, with its value, as they are run (see `execute`).

    ``states`` are those that ``past`` tokens left in the cache, where the graph reads them.
    """
    state = _State(graph, tensors, dtype)
    batch, sequence = input_ids.shape
    resolver = Resolver(graph.config, {"batch": batch, "sequence": sequence, "past": past}, state.dtype)
    if (guard := misread(graph, batch, sequence, past)) is not None:
        raise KunportError(
            f"The graph was read where {guard.expr} is {guard.outcome} ({guard.where}), and here it is not.",
            "Read the model again for this length.",
        )
    run = _Run(state, resolver, input_ids, needed(graph, ids), states or {}, past + sequence)
    yield from run.nodes(graph.nodes, {}, keep=set())


def misread(graph: Graph, batch: int, sequence: int, past: int = 0) -> Guard | None:
    """The first decision on a size that the graph was read for and that does not hold at these sizes; None without."""
    resolver = Resolver(graph.config, {"batch": batch, "sequence": sequence, "past": past}, torch.float32)
    for guard in graph.sizes:
        if symbols_of(guard.expr) <= resolver.given and resolver.scalar(guard.expr) != guard.outcome:
            return guard
    return None


class _State:
    """The tensors of the state, tied ones under both names."""

    def __init__(self, graph: Graph, tensors: Mapping[str, torch.Tensor], dtype: torch.dtype | None) -> None:
        self._graph = graph
        self._tensors = tensors
        # What a checkpoint holds of a buffer goes before what the constructor computes.
        saved = ((parameter.initial, path) for path, parameter in graph.parameters.items() if path in tensors)
        self.saved = {node: path for node, path in saved if node is not None}
        self._shared = {name: other for pair in graph.tied for name, other in (pair, pair[::-1])}
        self._cast = dtype is not None
        self.dtype = dtype or self._own_dtype()

    def read(self, path: str) -> torch.Tensor:
        found = self._tensors.get(path)
        if found is None:
            found = self._tensors.get(self._shared.get(path, path))
        if found is None:
            raise KunportError(
                f"The checkpoint has no tensor {path}.", "Give the checkpoint that the model belongs to."
            )
        parameter = self._graph.parameters.get(path)
        if self._cast and found.is_floating_point() and (parameter is None or parameter.dtype.name == "model"):
            return found.to(self.dtype)
        return found

    def _own_dtype(self) -> torch.dtype:
        for path, parameter in self._graph.parameters.items():
            if parameter.dtype.name == "model" and path in self._tensors:
                return self._tensors[path].dtype
        return next((held.dtype for held in self._tensors.values() if held.is_floating_point()), torch.float32)


class _Run:
    """One pass over the graph."""

    def __init__(
        self,
        state: _State,
        resolver: Resolver,
        input_ids: torch.Tensor,
        needed: set[int],
        states: Mapping[str, torch.Tensor],
        seen: int,
    ) -> None:
        self._state = state
        self._resolver = resolver
        self._input_ids = input_ids
        self._needed = needed
        self._states = states
        self._seen = seen

    def nodes(self, nodes: list[Node], values: dict[int, Any], keep: set[int]) -> Iterator[tuple[Node, Any]]:
        """Runs nodes in order, adding to ``values``; those that no later one reads are dropped, but for ``keep``."""
        todo = [node for node in nodes if node.id in self._needed]
        last = {used: place for place, node in enumerate(todo) for used in (node.id, *reads(node))}
        ends: dict[int, list[int]] = {}
        for used, place in last.items():
            ends.setdefault(place, []).append(used)
        own = {node.id for node in todo}
        for place, node in enumerate(todo):
            if node.body is not None:
                yield from self._loop(node, node.body, values)
            else:
                value = self._value(node, values)
                values[node.id] = value.contiguous() if node.contiguous else value
            if node.shape is not None:
                self._resolver.bind(node.shape, values[node.id])
            yield node, values[node.id]
            for used in ends.get(place, ()):
                if used in own and used not in keep:
                    del values[used]

    def _loop(self, node: Node, body: Body, values: dict[int, Any]) -> Iterator[tuple[Node, Any]]:
        inside, before, after = zip(*body.carried, strict=True) if body.carried else ((), (), ())
        carried = [self._resolver.argument(start, values) for start in before]
        keep = set(refs(list(after)))
        for row in self._resolver.argument(node.args[0], values):
            self._resolver.turn(body.variable, row)
            turn = {**values, body.variable: row, **dict(zip(inside, carried, strict=True))}
            if body.skip is not None and body.skip.id in turn and bool(turn[body.skip.id]):
                continue
            for inner, value in self.nodes(body.nodes, turn, keep):
                yield inner, value
                if body.skip is not None and inner.id == body.skip.id and bool(value):
                    break
            else:
                carried = [self._resolver.argument(end, turn) for end in after]
        values[node.id] = tuple(carried)

    @torch.no_grad()
    def _value(self, node: Node, values: Mapping[int, Any]) -> Any:
        if node.id in self._state.saved:
            return self._state.read(self._state.saved[node.id])
        match node.op, node.args:
            case "input", ("input_ids",):
                return self._input_ids
            case "input", (name,):
                raise KunportError(f"The model reads {name}.", "Only models that read token ids alone can be run.")
            case "parameter", (path,):
                return self._state.read(path)
            case "mask", (kind, *window):
                width = self._resolver.argument(window[0], values) if window else None
                dtype = self._state.dtype if node.dtype is None else self._resolver.dtype(node.dtype)
                batch, _, length, keys = self._resolver.argument(node.shape, values)
                device = self._input_ids.device
                return additive_mask(kind, width, batch, length, dtype, device, keys=keys, seen=self._seen)
            case "state", (path,):
                return self._states[path]
            case "item", (several, index):
                return values[several.id][index]
            case "unknown", (reason, *_):
                raise KunportError(
                    f"The logits depend on what the analysis did not understand: {reason} ({node.where}).",
                    "Report the model's name with this line.",
                )
        args, kwargs = self._resolver.argument((node.args, node.kwargs), values)
        try:
            return call(node.op, args, kwargs, self._input_ids.device)
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            raise KunportError(
                f"torch refuses {node.op} (%{node.id}, {node.where}): {error}.",
                "Report the model's name with this line.",
            ) from error
