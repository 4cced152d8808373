"""Rotary positions of one attention, from the Jacobian of the query at several positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kunport.oracle.attention.probe import Probe, ProbeError

_FAR = 28


@dataclass(frozen=True, slots=True)
class Rotation:
    """How a query turns with its position.

    ``pairing`` is ``half``, ``interleaved`` or "" where one pair cannot tell; ``dims`` counts the elements of a head
    that turn, ``span`` those that the pairs lie among; ``angles`` ``[dims / 2]`` are those of position 1, in radians,
    the fastest first. ``gain`` multiplies the elements of a head that do not turn, or all where none rest.
    """

    pairing: str
    dims: int
    span: int
    angles: tuple[float, ...]
    gain: float


def find_rotation(probe: Probe, name: str = "query") -> Rotation:
    """The rotation of the query or key, ``dims`` 0 where its direction does not depend on the position.

    Raises:
        ProbeError: what lies between the projection and the tensor is no rotation.
    """
    jacobians = head_jacobians(probe, name, (0, 1, _FAR))
    origin, near, far = jacobians
    source = origin.abs().argmax(1)
    gains = origin.abs().amax(1)
    rest = origin.abs().sum(1) - gains
    if bool((rest > 1e-4 * gains).any()) or len(set(source.tolist())) != len(source):
        raise ProbeError(f"the {name} is no permutation of its projection at position 0")
    near, far = near[:, source] / gains[:, None], far[:, source] / gains[:, None]
    turning = far - torch.diag(torch.diagonal(far))
    pairs = [(row, column) for row, column in turning.nonzero().tolist() if row < column]
    if not pairs:
        return Rotation("", 0, 0, (), float(gains.median()))
    if len({index for pair in pairs for index in pair}) != 2 * len(pairs):
        raise ProbeError(f"the {name} mixes more than pairs of elements")
    angles = [abs(float(torch.atan2(near[right, left], near[left, left]))) for left, right in pairs]
    resting = sorted(set(range(len(source))) - {index for pair in pairs for index in pair})
    gain = float(gains[resting].median() if resting else gains.median())
    distances = {abs(int(source[left]) - int(source[right])) for left, right in pairs}
    pairing = _pairing(distances, pairs)
    span = 2 * max(distances) if pairing == "half" else 2 * len(pairs)
    return Rotation(pairing, 2 * len(pairs), span, tuple(sorted(angles, reverse=True)), gain)


def turns(probe: Probe, source: nn.Module, bypass: list[nn.Module], name: str) -> bool:
    """Whether the direction of a tensor depends on the position when ``source`` puts out the same everywhere."""
    tensor = getattr(probe.run({source: lambda out: constant(out, probe.length)}, bypass).scores, name)
    direction = tensor / tensor.norm(dim=-1, keepdim=True)
    return bool((direction - direction[:, :1]).abs().max() > 1e-4)


def constant(out: Tensor, length: int) -> Tensor:
    """A random tensor like ``out`` that is the same at each of ``length`` positions."""
    axis = positions_axis(out, length)
    generator = torch.Generator().manual_seed(out.numel())
    values = 0.1 * torch.randn(out.select(axis, 0).shape, generator=generator)  # small: nothing is clamped
    return values.unsqueeze(axis).expand(out.shape).clone()


def positions_axis(out: Tensor, length: int) -> int:
    """The axis of ``length`` positions."""
    axes = [axis for axis, size in enumerate(out.shape) if size == length]
    if len(axes) != 1:
        raise ProbeError("a projection's output has no axis of positions")
    return axes[0]


def head_jacobians(probe: Probe, name: str, positions: tuple[int, ...]) -> list[Tensor]:
    """``[head_dim, features]`` at each position: the first head's tensor by what its projection puts out.

    Norms in between are left out.
    """
    made: list[Tensor] = []

    def change(out: Tensor) -> Tensor:
        axis = positions_axis(out, probe.length)
        made.append(constant(out, probe.length).select(axis, 0).unsqueeze(axis).clone().requires_grad_())
        return made[-1].expand(out.shape).clone()  # which the model may change in place

    outcome = probe.run({probe.projections[name]: change}, probe.inner_norms, grad=True)
    tensor = getattr(outcome.scores, name)
    if not tensor.requires_grad:
        raise ProbeError(f"no gradient reaches the {name}")
    rows = [
        [torch.autograd.grad(element, made[0], retain_graph=True)[0].flatten() for element in tensor[0, position]]
        for position in positions
    ]
    return [torch.stack(each) for each in rows]


def _pairing(distances: set[int], pairs: list[tuple[int, int]]) -> str:
    if len(pairs) < 2 or len(distances) != 1:
        return ""
    return "interleaved" if distances == {1} else "half"
