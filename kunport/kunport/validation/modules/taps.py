"""The reference's side: its forward pass with the engine's values put in place of what its modules take and give.

A *point* is one tensor at the border of one module. `Tapped` calls back at each, in order of execution, with the
reference's own value, and goes on with the engine's, so that every point is judged by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import torch
from torch import nn

from kunport.validation.modules.alignment import Alignment, Partner
from kunport.validation.modules.recorder import LOGITS
from kunport.validation.modules.recording import Recording

IN, OUT = "in", "out"
ATTENTION = "eager_attention_forward"  # the function that Transformers' models call for attention without a library
# Called between projections and attention with query and key, and gives both rotated.
ROTATIONS = ("apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave")


@dataclass(frozen=True, slots=True)
class Point:
    """Attributes:
    reference: path of the reference's module; of a function, of the module that calls it.
    adapter: path of the adapter's.
    side: ``in`` or ``out``.
    what: which tensor of several, "" where there is one.
    ordered: whether columns correspond one by one.
    """

    reference: str
    adapter: str
    side: str
    what: str = ""
    ordered: bool = True


_TRIALS = 8
OnPoint = Callable[[Point, torch.Tensor, torch.Tensor], None]


class Tapped:
    """Points of one request: compares nothing itself.

    Args:
        rows: the request's rows in the recording.
        epsilon: relative spacing of the engine's precision.
        on_point: told of a point, the reference's value and the engine's, both ``[rows, columns]``.
    """

    def __init__(
        self,
        model: nn.Module,
        alignment: Alignment,
        recording: Recording,
        rows: torch.Tensor,
        epsilon: float,
        on_point: OnPoint,
    ) -> None:
        self._model, self._alignment, self._recording = model, alignment, recording
        self._rows, self._epsilon, self._on_point = rows, epsilon, on_point
        self._undecided: dict[str, torch.Tensor] = {}  # by the path of the block that routes

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Hooks and wrapped functions are in place inside."""
        with ExitStack() as stack:
            for path, module in self._model.named_modules():
                partner = self._alignment.partners.get(path)
                if path and partner is not None:
                    before, after = partial(self._before, path, partner), partial(self._after, path, partner)
                    stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
                    stack.callback(module.register_forward_hook(after).remove)
                stack.enter_context(self._functions(path, module))
            yield

    def final(self, logits: torch.Tensor) -> None:
        """The logits as the model returns them."""
        self._meet(Point("", LOGITS, OUT), logits, self._engine(LOGITS, OUT, 0))

    def _before(self, path: str, partner: Partner, module: nn.Module, args: Any, kwargs: Any) -> Any:
        call = self._recording.calls[partner.path]
        value = self._tensor(_whole(path, module, call.inputs, IN), None)
        if args and _is_float(args[0]):
            return (self._meet(Point(path, partner.path, IN), args[0], value), *args[1:]), kwargs
        if _is_float(kwargs.get("hidden_states")):
            met = self._meet(Point(path, partner.path, IN), kwargs["hidden_states"], value)
            return args, {**kwargs, "hidden_states": met}
        return None

    def _after(self, path: str, partner: Partner, module: nn.Module, args: Any, output: Any) -> Any:
        call = self._recording.calls[partner.path]
        value = self._tensor(_whole(path, module, call.outputs, OUT), partner.columns)
        point = Point(path, partner.path, OUT, ordered=partner.ordered)
        if isinstance(module, nn.Embedding) and type(module) is not nn.Embedding:
            # A table that scales what it looks up, where the adapter scales afterwards.
            self._meet(point, nn.functional.embedding(args[0], module.weight), value)
            return None
        if _is_float(getattr(output, "last_hidden_state", None)):
            output.last_hidden_state = self._meet(point, output.last_hidden_state, value)
            return output
        if _is_routing(output):
            self._undecided[path.rpartition(".")[0]] = self._undecided_rows(module, args[0], output[2])
        if isinstance(output, tuple):
            return (self._meet(point, output[0], value), *output[1:]) if _is_float(output[0]) else None
        return self._meet(point, output, value) if _is_float(output) else None

    @contextmanager
    def _functions(self, path: str, module: nn.Module) -> Iterator[None]:
        """While a module runs, the functions of its file that attend and rotate are tapped as well."""
        names = vars(sys.modules[type(module).__module__])
        partner = self._alignment.partners.get(path)
        found = {name: names[name] for name in (ATTENTION, *ROTATIONS) if callable(names.get(name))}
        if partner is None or not found or f"{partner.path}.attn" not in self._recording.calls:
            yield
            return
        taps: dict[str, Any] = {ATTENTION: self._attention} | dict.fromkeys(ROTATIONS, self._rotation)

        def enter(*_: Any) -> None:
            for name, function in found.items():
                names[name] = wraps(function)(partial(taps[name], function, path, partner.path))

        def leave(*_: Any) -> None:
            names.update(found)

        hooks = module.register_forward_pre_hook(enter), module.register_forward_hook(leave)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            names.update(found)

    def _rotation(self, function: Any, path: str, partner: str, query: Any, key: Any, *rest: Any, **kw: Any) -> Any:
        place = f"{partner}.rotary_emb"
        if place not in self._recording.calls:
            return function(query, key, *rest, **kw)
        met = []
        for index, (what, value) in enumerate((("query", query), ("key", key))):
            met.append(self._meet(Point(path, place, IN, what), value, self._engine(place, IN, index)))
        rotated = function(*met, *rest, **kw)
        answers = []
        for index, (what, value) in enumerate((("query", rotated[0]), ("key", rotated[1]))):
            engine = self._engine(place, OUT, index)
            ordered = not _reordered(value, engine)
            answers.append(self._meet(Point(path, place, OUT, what, ordered), value, engine))
        return tuple(answers)

    def _attention(
        self,
        function: Any,
        path: str,
        partner: str,
        module: Any,
        query: Any,
        key: Any,
        value: Any,
        *rest: Any,
        **kw: Any,
    ) -> Any:
        place = f"{partner}.attn"
        # The value first: nothing is done to it between projection and attention.
        padded = _unpadded(self._engine(place, IN, 2), value.shape[1], value.shape[3])
        value = self._meet(Point(path, place, IN, "value"), value, padded)
        given = []
        for index, (what, tensor) in enumerate((("query", query), ("key", key))):
            engine = self._engine(place, IN, index)
            # Query and key in another order of elements, the same for both, give the same scores.
            ordered = not _reordered(tensor, engine)
            given.append(self._meet(Point(path, place, IN, what, ordered), tensor, engine))
        output, weights = function(module, *given, value, *rest, **kw)
        padded = _unpadded(self._engine(place, OUT, 0), *output.shape[2:])
        return self._meet(Point(path, place, OUT), output, padded), weights

    def _engine(self, path: str, side: str, index: int) -> torch.Tensor | None:
        call = self._recording.calls.get(path)
        tensors = [] if call is None else call.inputs if side == IN else call.outputs
        return self._tensor(tensors[index], None) if index < len(tensors) else None

    def _undecided_rows(self, router: nn.Module, hidden: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """Rows for which rounding decides between experts: others are chosen where the input is off by as much.

        They are not judged: whichever is chosen, a step of the engine's precision would choose another.
        """
        generator = torch.Generator().manual_seed(0)
        undecided = torch.zeros(len(chosen), dtype=torch.bool)
        for _ in range(_TRIALS):
            noise = torch.randn(hidden.shape, generator=generator).to(hidden.dtype)
            other = router.forward(hidden * (1 + 2 * self._epsilon * noise))[2]
            undecided |= (other.sort(-1).values != chosen.sort(-1).values).any(-1)
        return undecided

    def _tensor(self, value: torch.Tensor | None, columns: tuple[int, int] | None) -> torch.Tensor | None:
        if value is None:
            return None
        value = value[self._rows].flatten(1)
        return value if columns is None else value[:, columns[0] : columns[1]]

    def _meet(self, point: Point, own: torch.Tensor, engine: torch.Tensor | None) -> torch.Tensor:
        """The value to go on with: the engine's, where both are of a size."""
        length = len(self._rows)
        heads_first = own.dim() == 4 and own.shape[1] != length and own.shape[2] == length
        by_token = own.transpose(1, 2) if heads_first else own
        if engine is None or engine.numel() != own.numel() or length not in by_token.shape[:2]:
            return own
        flat = by_token.reshape(length, -1)
        undecided = self._undecided.get(point.reference.rpartition(".")[0])
        if undecided is not None and point.reference.endswith(".experts") and point.side == OUT:
            flat = torch.where(undecided[:, None], engine.to(flat.dtype), flat)
        self._on_point(point, flat, engine)
        if not point.ordered:
            return own
        put = engine.to(own.dtype).reshape(by_token.shape)
        return put.transpose(1, 2) if heads_first else put


def _whole(path: str, module: nn.Module, tensors: list[torch.Tensor], side: str) -> torch.Tensor | None:
    """What layers give, and norms take, in two tensors, the residual and a sublayer's output, is their sum."""
    if not tensors:
        return None
    layer, norm = path.rpartition(".")[2].isdigit(), side == IN and "norm" in type(module).__name__.lower()
    if len(tensors) == 2 and (layer or norm) and tensors[0].shape == tensors[1].shape:
        return tensors[0] + tensors[1]
    return tensors[0]


def _unpadded(engine: torch.Tensor | None, heads: int, elements: int) -> torch.Tensor | None:
    """Heads that the engine pads to the size of the query's, without what was added."""
    if engine is None or engine.shape[1] <= heads * elements or engine.shape[1] % heads:
        return engine
    return engine.reshape(len(engine), heads, -1)[..., :elements].flatten(1)


def _reordered(own: torch.Tensor, engine: torch.Tensor | None) -> bool:
    """Whether ``own``, ``[1, heads, rows, elements]``, has the engine's elements in another order within a head."""
    if engine is None or engine.numel() != own.numel():
        return False
    mine, theirs = own[0].transpose(0, 1).float(), engine.float().reshape(own.shape[2], own.shape[1], -1)
    close = partial(torch.allclose, rtol=1e-2, atol=1e-4 * float(mine.abs().max()))
    return not close(mine, theirs) and close(mine.sort(-1).values, theirs.sort(-1).values)


def _is_routing(output: Any) -> bool:
    """Whether a module returned scores, weights and the indices of the chosen experts, each by row."""
    if not (isinstance(output, tuple) and len(output) == 3 and all(isinstance(each, torch.Tensor) for each in output)):
        return False
    return output[2].dim() == 2 and not output[2].is_floating_point() and _is_float(output[0])


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
