"""Makes tensors in a pool: whatever torch makes within the context lies there."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from kunport_runtime.memory.pool import Pool

_EMPTY = torch.ops.aten.empty.memory_format
_ZEROS = torch.ops.aten.zeros.default
_LIFT = torch.ops.aten.lift_fresh.default  # the end of `torch.tensor`, which makes its argument unseen


class AllocateIn(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tensors on the host that an operation of torch makes are the pool's. Of nested contexts the inner one counts.

    ``torch.empty`` and ``torch.zeros``, which make all that is large, are served by the pool directly; what any other
    operation makes is moved there. Threads that the context starts are not within it.
    """

    _active: ClassVar[list[AllocateIn]] = []

    def __init__(self, pool: Pool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pool = pool

    def __enter__(self) -> AllocateIn:
        self._active.append(self)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._active.remove(self)

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        options = options or {}
        if self._active[-1] is not self:
            return operation(*arguments, **options)
        if operation in (_EMPTY, _ZEROS) and _on_host(options) and arguments:
            made = self.pool.empty(arguments[0], options.get("dtype") or torch.get_default_dtype())
            return made.zero_() if operation is _ZEROS else made
        result = operation(*arguments, **options)
        if operation is _LIFT:
            return self._moved(result)
        known = {_address(each) for each in tree_flatten((arguments, options))[0] if isinstance(each, torch.Tensor)}
        return tree_map_only(torch.Tensor, lambda each: each if _address(each) in known else self._moved(each), result)

    def _moved(self, made: torch.Tensor) -> torch.Tensor:
        if made.device.type != "cpu" or made.layout != torch.strided or not made.numel() or made.is_quantized:
            return made
        return self.pool.empty(made.shape, made.dtype, made.stride()).copy_(made)


def _on_host(options: dict[str, Any]) -> bool:
    """Whether a new tensor is an ordinary one in the host's memory."""
    device = options.get("device")
    ordinary = options.get("layout") in (None, torch.strided) and not options.get("pin_memory")
    plain_order = options.get("memory_format") in (None, torch.contiguous_format, torch.preserve_format)
    return ordinary and plain_order and (device is None or torch.device(device).type == "cpu")


def _address(tensor: torch.Tensor) -> int:
    """What tensors of one storage have in common."""
    if tensor.layout != torch.strided:
        return id(tensor)
    return int(tensor.untyped_storage()._cdata)
