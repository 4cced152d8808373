"""Builds small model graphs by writing them down like torch code.

    build = GraphBuilder()
    x, w = build.parameter("x", 2, 5, 8), build.parameter("weight", 8)
    build.graph(w * (x * (x.pow(2).mean(dim=-1, keepdim=True) + 1e-6).rsqrt()))

Shapes and dtypes come from the same rules as those of an analysed graph, and `run` executes what was built. Arguments
have to be written in the form that the analysis gives them: optional ones by name, and only where they matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from kunport.analysis.shapes import TensorType, infer
from kunport.validation.executor import execute_nodes
from kunport_codegen.expression import symbol
from kunport_codegen.graph import Body, DType, Frame, Graph, Location, Node, Parameter, Ref

MODEL, FLOAT32 = DType("model"), DType("float32")
BATCH, SEQUENCE = symbol("batch", 2), symbol("sequence", 5)


class Tensor:
    """A tensor of the graph under construction; every method is the operator of that name."""

    def __init__(self, builder: GraphBuilder, identifier: int, kind: Any) -> None:
        self.builder, self.id, self.kind = builder, identifier, kind

    def __getattr__(self, op: str) -> Callable[..., Tensor]:
        return lambda *args, **kwargs: self.builder.apply(op, self, *args, **kwargs)

    def item(self, position: int) -> Tensor:
        return self.builder.apply("item", self, position)

    def __getitem__(self, index: Any) -> Tensor:
        return self.builder.apply("getitem", self, index)

    def __add__(self, other: Any) -> Tensor:
        return self.builder.apply("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return self.builder.apply("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return self.builder.apply("sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return self.builder.apply("sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return self.builder.apply("mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return self.builder.apply("mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return self.builder.apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self.builder.apply("div", other, self)

    def __rpow__(self, other: Any) -> Tensor:
        return self.builder.apply("pow", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return self.builder.apply("matmul", self, other)

    def __neg__(self) -> Tensor:
        return self.builder.apply("neg", self)


class GraphBuilder:
    """A graph under construction; `apply` adds an operator, `graph` ends it."""

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        frames = [Frame(0, None, "module", "Model", "", Location("model.py", 1))]
        self.result = Graph("TinyForCausalLM", "tiny", config or {}, frames=frames)
        self.nodes = self.result.nodes
        self.ids = 0
        self.frame = 0

    def call(self, x: Tensor, body: Callable[[Tensor], Tensor]) -> Tensor:
        """The result of a module call; what the body builds belongs to it."""
        outer, frames = self.frame, self.result.frames
        self.frame = len(frames)
        frames.append(Frame(self.frame, outer, "module", "Part", f"part{self.frame}", Location("model.py", 1)))
        frames[-1].inputs["x"] = Ref(x.id)
        result = body(x)
        frames[self.frame].output = Ref(result.id)
        self.frame = outer
        return result

    def parameter(self, path: str, *shape: Any, dtype: DType = MODEL) -> Tensor:
        self.result.parameters[path] = Parameter(path, shape, dtype)
        return self._add("parameter", (path,), {}, TensorType(shape, dtype))

    def mask(self, kind: str, window: Any = None) -> Tensor:
        return self._add("mask", (kind, window), {}, TensorType((BATCH, 1, SEQUENCE, SEQUENCE), MODEL))

    def arange(self, *bounds: Any, **kwargs: Any) -> Tensor:
        return self.apply("arange", *bounds, **kwargs)

    def cat(self, *tensors: Tensor, dim: int = -1) -> Tensor:
        return self.apply("cat", tensors, dim=dim)

    def stack(self, *tensors: Tensor, dim: int = -1) -> Tensor:
        return self.apply("stack", tensors, dim=dim)

    def apply(self, op: str, *args: Any, **kwargs: Any) -> Tensor:
        """Adds an operator; tensors may stand anywhere in its arguments."""
        if op == "item":
            several, position = args
            return self._add(op, (Ref(several.id), position), {}, several.kind[position])
        kinds = _replace(args, lambda tensor: tensor.kind), _replace(kwargs, lambda tensor: tensor.kind)
        kind = infer(op, *kinds, symbol=f"data{self.ids}")
        to_ref = lambda tensor: Ref(tensor.id)  # noqa: E731
        return self._add(op, _replace(args, to_ref), _replace(kwargs, to_ref), kind)

    def loop(
        self, rows: Tensor, start: Tensor, body: Callable[[Tensor, Tensor], tuple[Tensor, Tensor | None]]
    ) -> Tensor:
        """The result of a loop over rows that carries one value; ``body`` gives its new value and when to skip."""
        variable = Tensor(self, self._id(), TensorType(rows.kind.shape[1:], rows.kind.dtype))
        carried = Tensor(self, self._id(), start.kind)
        outer, self.nodes = self.nodes, []
        after, skip = body(variable, carried)
        inner, self.nodes = self.nodes, outer
        loop = self._add("loop", (Ref(rows.id),), {}, (start.kind,))
        carries = [(carried.id, Ref(start.id), Ref(after.id))]
        self.nodes[-1].body = Body(variable.id, inner, carries, None if skip is None else Ref(skip.id))
        return loop.item(0)

    def graph(self, *outputs: Tensor) -> Graph:
        self.result.output = [Ref(output.id) for output in outputs]
        return self.result

    def _id(self) -> int:
        self.ids += 1
        return self.ids

    def _add(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any], kind: Any) -> Tensor:
        shape, dtype = (None, None) if isinstance(kind, tuple) else (kind.shape, kind.dtype)
        node = Node(self._id(), op, args, kwargs, shape, dtype, self.frame, Location("model.py", self.ids + 1))
        self.nodes.append(node)
        return Tensor(self, node.id, kind)


def _replace(arg: Any, change: Callable[[Tensor], Any]) -> Any:
    if isinstance(arg, Tensor):
        return change(arg)
    if isinstance(arg, list | tuple):
        return type(arg)(_replace(each, change) for each in arg)
    if isinstance(arg, dict):
        return {name: _replace(each, change) for name, each in arg.items()}
    return arg


def run(graph: Graph, ids: Iterable[int], seed: int = 0) -> tuple[dict[int, np.ndarray], dict[str, np.ndarray]]:
    """The values of some tensors for random parameters, and those parameters; computed by torch in float32.

    The dtype ``model`` stands for float32 too: the question is which formula the nodes compute, not how they round.
    """
    draw = np.random.default_rng(seed)
    state = {path: draw.standard_normal(_sizes(each), dtype=np.float32) for path, each in graph.parameters.items()}
    tensors = {path: torch.from_numpy(values) for path, values in state.items()}
    input_ids = torch.zeros((BATCH.value, SEQUENCE.value), dtype=torch.int64)
    values = execute_nodes(graph, tensors, input_ids, ids, dtype=torch.float32)
    return {each: value.numpy() for each, value in values.items()}, state


def _sizes(parameter: Parameter) -> tuple[int, ...]:
    return tuple(getattr(size, "value", size) for size in parameter.shape)
