"""The engine's side: hooks on every module of the live model."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kunport.validation.modules.recording import Call, Definition, Recording

HEAD, LOGITS = "lm_head", "logits_processor"


@contextmanager
def recorded(runner: Any, keep: int | None = None) -> Iterator[Recording]:
    """Records every forward pass of the model that runs inside; the recording is complete when the context ends.

    Args:
        runner: vLLM's model runner, which knows the rows of each request in a pass.
        keep: record the first so many requests only, which bounds the memory; None for all.
    """
    recorder = _Recorder(runner, keep)
    hooks = recorder.attach()
    nothing = torch.empty(0, dtype=torch.int64)
    recording = Recording(nothing, nothing, nothing)
    try:
        yield recording
    finally:
        for hook in hooks:
            hook.remove()
    recorder.finish(recording)


class _Recorder:
    def __init__(self, runner: Any, keep: int | None) -> None:
        self._runner = runner
        self._model: nn.Module = runner.get_model()
        self._keep = keep
        self._requests: dict[str, int] = {}
        self._stack: list[str] = []
        self._rows: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self._chosen = torch.empty(0, dtype=torch.int64)
        self._width = -1
        self._found: dict[str, dict[tuple[str, int], list[torch.Tensor]]] = {}
        self._definitions: dict[str, Definition] = {}

    def attach(self) -> list[Any]:
        # Modules may be shared (vLLM keeps one rotary embedding for all layers): a call's path is below its caller's.
        paths: dict[nn.Module, list[str]] = defaultdict(list)
        for path, module in self._model.named_modules(remove_duplicate=False):
            paths[module].append(path)
        hooks: list[Any] = [self._model.register_forward_pre_hook(self._begin, with_kwargs=True)]
        for module, names in paths.items():
            kind: Any = type(module)  # mypy finds classes of torch's modules not hashable
            self._definitions |= dict.fromkeys(names, _definition(kind))
            if names == [""]:
                continue
            if type(module).__call__ is nn.Module.__call__:
                hooks.append(module.register_forward_pre_hook(self._enter(names), with_kwargs=True))
                hooks.append(module.register_forward_hook(self._leave, with_kwargs=True))
            else:  # one that may be compiled calls its forward itself, without hooks
                hooks.append(_Around(module, self._enter(names), self._leave))
        hooks.append(self._model.register_forward_hook(self._end))
        return hooks

    def _begin(self, module: nn.Module, args: Any, kwargs: Mapping[str, Any]) -> None:
        """A pass begins: which request and position each of its rows is."""
        batch = self._runner.input_batch
        bounds = self._runner.query_start_loc.np[: batch.num_reqs + 1].tolist()
        tensors = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        ids, positions = tensors["input_ids"], tensors["positions"]
        self._width = len(positions)
        request = torch.full((self._width,), -1)
        for name, begin, end in zip(batch.req_ids, bounds, bounds[1:], strict=False):
            number = self._requests.setdefault(name, len(self._requests))
            if self._keep is None or number < self._keep:
                request[begin:end] = number
        self._chosen = (request >= 0).nonzero()[:, 0]
        self._rows.append((request[self._chosen], positions[self._chosen].clone(), ids[self._chosen].clone()))

    def _enter(self, names: list[str]) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Mapping[str, Any]) -> None:
            self._stack.append(_below(names, self._stack))
            # Copies: the engine's kernels may write to what they are given.
            self._keep_all("in", (*args, *kwargs.values()))

        return hook

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self._keep_all("out", output if isinstance(output, tuple) else (output,))
        self._stack.pop()

    def _end(self, module: Any, args: Any, output: Any) -> None:
        """The pass ends with the last norm; the head and what is done to logits follow for all of its rows."""
        if not isinstance(output, torch.Tensor):
            return
        head = getattr(module, HEAD, None)
        if head is not None:
            raw = head.quant_method.apply(head, output, bias=getattr(head, "bias", None))
            self._stack.append(HEAD)
            self._keep_all("in", (output,))
            self._keep_all("out", (raw[:, : module.logits_processor.org_vocab_size],))
            self._stack.pop()
        module.compute_logits(output)  # its logits processor has hooks of its own
        self._width = -1  # what follows is the engine's own use of the head, on some rows

    def _keep_all(self, side: str, values: Iterable[Any]) -> None:
        tensors = [value for value in values if isinstance(value, torch.Tensor) and value.is_floating_point()]
        for index, tensor in enumerate(tensor for tensor in tensors if tensor.shape[:1] == (self._width,)):
            place = self._found.setdefault(self._stack[-1], {})
            place.setdefault((side, index), []).append(tensor.detach()[self._chosen].clone())

    def finish(self, recording: Recording) -> None:
        recording.request, recording.position, recording.token = (
            torch.cat(column).long() for column in zip(*self._rows, strict=True)
        )
        rows = len(recording.request)
        for path, found in self._found.items():
            whole = {key: torch.cat(parts) for key, parts in found.items() if _alike(parts)}
            sides: dict[str, list[torch.Tensor]] = {"in": [], "out": []}
            for (side, _), tensor in sorted(whole.items()):
                if len(tensor) == rows:  # of a module that runs in some passes only, no request is complete
                    sides[side].append(tensor)
            recording.calls[path] = Call(sides["in"], sides["out"])
        recording.definitions = self._definitions
        recording.names = parameter_names(self._model, self._runner)
        recording.sorted_rows = _sorted_rows(self._model, recording.names)


def parameter_names(model: nn.Module, runner: Any) -> dict[str, tuple[str, str]]:
    """Where the adapter's mapper brings each tensor of the checkpoint: its parameter and the part of it."""
    from safetensors import safe_open

    mapper = getattr(model, "hf_to_vllm_mapper", None)
    names = {}
    for file in sorted(Path(runner.model_config.model).glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (no mapping)
                mapped = (name, None) if mapper is None else mapper._map_name_with_shard(name)
                if mapped is not None:
                    names[name] = (mapped[0], "" if mapped[1] is None else str(mapped[1]))
    return names


def _sorted_rows(model: nn.Module, names: Mapping[str, tuple[str, str]]) -> list[str]:
    """The modules whose rows an adapter's own ``_sort_rows`` moves, found out by numbered rows."""
    sort = getattr(model, "_sort_rows", None)
    found = []
    parameters = dict(model.named_parameters())
    for name, (target, part) in names.items():
        if sort is not None and not part and target in parameters:
            rows = torch.arange(len(parameters[target]))
            if not torch.equal(sort(name, rows), rows):
                found.append(target.rpartition(".")[0])
    return sorted(set(found))


def _below(names: list[str], callers: list[str]) -> str:
    """Of a module's names the one whose parent is running."""
    if len(names) == 1:
        return names[0]
    return next((name for name in names if name.rpartition(".")[0] in callers), names[0])


def _alike(parts: list[torch.Tensor]) -> bool:
    return all(part.shape[1:] == parts[0].shape[1:] for part in parts)


@cache
def _definition(kind: Any) -> Definition:
    try:
        return Definition(kind.__name__, inspect.getfile(kind), inspect.getsourcelines(kind)[1])
    except (OSError, TypeError):
        return Definition(kind.__name__)


class _Around:
    """Hooks around a module's own ``forward``."""

    def __init__(self, module: nn.Module, before: Any, after: Any) -> None:
        self._module = module
        forward = module.forward

        def hooked(*args: Any, **kwargs: Any) -> Any:
            before(module, args, kwargs)
            output = forward(*args, **kwargs)
            after(module, args, kwargs, output)
            return output

        module.forward = hooked

    def remove(self) -> None:
        del self._module.forward
