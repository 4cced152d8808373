"""Computes a lowered model as the engine's layers are documented, on tokens that lie behind one another.

It reads what lowering gave: constructor arguments by their expressions on the configuration, weights by the names and
shards of the weight map. So a wrong expression, shard or order of rows shows in the logits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from kunport_codegen.expression import Expr, Scalar, evaluate
from kunport_codegen.graph import DType, Ref
from kunport_codegen.lowering import LoweredModel
from kunport_codegen.lowering.flow import NO_RESIDUAL, POSITIONS, Op, basename
from kunport_codegen.lowering.members import Choice, Member, Repeat, Updated
from kunport_codegen.lowering.selection import read
from kunport_codegen.lowering.structure import Body
from torch.nn import functional

torch.set_num_threads(1)  # the tensors are tiny, and threads only wait for one another

Tensors = dict[str, torch.Tensor]


@dataclass
class Engine:
    """One run over a batch of sequences of one length."""

    model: LoweredModel
    weights: dict[tuple[str, Any], torch.Tensor]
    sequences: int
    length: int
    layer: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)

    def value(self, value: Any) -> Any:
        """A constructor argument under the configuration and the layer at hand."""
        if isinstance(value, Scalar):
            return self.value(value.expr)
        if isinstance(value, Expr):
            return evaluate(value, self.read, {"layer_idx": self.layer, **self.arguments})
        if isinstance(value, Choice):
            return self.value(value.then if self.value(value.test) else value.otherwise)
        if isinstance(value, Updated):
            return {**self.value(value.value), value.key: self.value(value.item)}
        if isinstance(value, Repeat):
            return [self.value(value.value)] * value.times
        return value

    def read(self, path: str) -> Any:
        return read(self.model.graph.config, path.replace("layer_idx", str(self.layer)))

    def weight(self, path: str) -> torch.Tensor:
        """A weight by its name in the adapter: whole, or of its shards."""
        shards = [self.weights[path, shard] for shard in ("q", "k", "v", 0, 1) if (path, shard) in self.weights]
        return torch.cat(shards) if shards else self.weights[path, None]

    def run(self, body: Body, path: str, inputs: list[Any]) -> list[Any]:
        """A body's outputs for its inputs; ``path`` is where this instance of it is in the tree."""
        values = dict(zip(body.inputs, inputs, strict=True))
        for step in body.steps:
            results = self.step(step, body, path, values)
            values.update(zip(step.results, results, strict=True))
        return [values[value] for value in body.outputs]

    def step(self, step: Op, body: Body, path: str, values: dict[int, Any]) -> list[Any]:
        args = [self.argument(arg, values) for arg in step.args]
        if step.name == "input":
            return [values[step.results[0]]]
        if step.name == "constant":
            made: dict[int, Any] = {}
            for op in step.fact.ops:
                made.update(
                    zip(op.results, self.torch(op, [self.argument(arg, made) for arg in op.args], made), strict=True)
                )
            return [made[step.fact.value]]
        if step.name == "parameter":
            return [self.weight(f"{path}.{step.args[0]}".strip("."))]
        if step.name == "enter":
            for test, other in step.instead:
                step = other if self.value(test) else step
            outer = self.arguments
            self.arguments = {name: self.value(value) for name, value in step.fact.arguments.items()}
            results = self.run(step.fact, _join(path, basename(step.fact.path)), args)
            self.arguments = outer
            return results
        if step.name == "layers":
            return self.layers(step, args)
        if step.name == "call":
            assert step.member is not None
            return self.call(step.member, _join(path, step.member.name), args, len(step.results))
        if step.name == "split_heads":
            assert step.member is not None
            sizes = self.projection(step.member)
            return list(args[0].split(sizes, dim=-1))
        if step.name == "kernel":
            inside = dict(values)
            for each in step.fact.steps:
                given = [self.argument(arg, inside) for arg in each.args]
                inside[each.results[0]] = self.torch(each, given, inside)[0]
            return [inside[step.results[0]]]
        if step.name == "view":
            sizes = [self.value(size) for size in self.model.layouts[step.results[0]].sizes]
            before = [self.value(size) for size in self.model.layouts[step.args[0].id].sizes]
            assert list(args[0].shape[1:]) == before, "a value has the sizes that lowering says"
            return [args[0].reshape(args[0].shape[0], *sizes)]
        return self.torch(step, args, values)

    def layers(self, step: Op, args: list[Any]) -> list[Any]:
        layers = step.fact
        results: list[Any] = []
        for index in range(self.value(layers.count)):
            self.layer = index
            if results:
                args = [
                    arg if index is None else results[index] for arg, index in zip(args, layers.carried, strict=True)
                ]
            results = self.run(layers.body, f"{layers.path}.{self.layer}", args)
        return results

    def argument(self, arg: Any, values: dict[int, Any]) -> Any:
        if isinstance(arg, Ref):
            return None if arg.id == NO_RESIDUAL and arg.id not in values else values[arg.id]
        if isinstance(arg, DType):
            return torch.float32 if arg.name == "model" else getattr(torch, arg.name)
        if isinstance(arg, list | tuple):
            return type(arg)(self.argument(item, values) for item in arg)
        if isinstance(arg, slice):
            return slice(*(self.value(part) for part in (arg.start, arg.stop, arg.step)))
        return self.value(arg)

    def torch(self, step: Op, args: list[Any], values: dict[int, Any]) -> list[Any]:
        kwargs = {key: self.argument(value, values) for key, value in step.kwargs.items()}
        if step.name == "tensor":
            return [torch.tensor(args[0], **kwargs)]
        if step.name == "getitem":
            return [args[0][args[1]]]
        if step.name == "item":
            return [args[0][args[1]]]
        function = getattr(functional, step.name, None) or getattr(torch, step.name, None)
        result = function(*args, **kwargs) if function is not None else getattr(args[0], step.name)(*args[1:], **kwargs)
        return [result] if len(step.results) == 1 else list(result)

    def projection(self, member: Member) -> list[int]:
        args = [self.value(arg) for arg in member.args]
        heads, kv_heads = args[2], args[3] if len(args) > 3 else args[2]
        return [heads * args[1], kv_heads * args[1], kv_heads * self.value(member.kwargs.get("v_head_size", args[1]))]

    def call(self, member: Member, path: str, args: list[Any], results: int) -> list[Any]:
        """A layer of the engine."""
        if member.when is not None and not self.value(member.when):
            return [arg for arg in args if arg is not None][-results:]
        settings = {key: self.value(value) for key, value in member.kwargs.items() if key != "prefix"}
        sizes = [self.value(arg) for arg in member.args if not hasattr(arg, "attribute")]
        if "Linear" in member.factory:
            weight = self.weight(f"{path}.weight")
            wanted = sum(self.projection(member)) if member.factory.startswith("QKV") else sizes[1]
            assert weight.shape == (sum(wanted) if isinstance(wanted, list) else wanted, sizes[0])
            bias = self.weight(f"{path}.bias") if settings["bias"] else None
            return [functional.linear(args[0], weight, bias)]
        if "Norm" in member.factory:
            return self.norm(member.factory, path, settings, args, results)
        if "Embedding" in member.factory:
            return [functional.embedding(args[0], self.weight(f"{path}.weight"))]
        if member.factory.endswith("AndMul"):
            gate, up = args[0].chunk(2, dim=-1)
            act = functional.silu if member.factory.startswith("Silu") else functional.gelu
            return [act(gate, **settings) * up]
        if member.factory == "get_rope":
            return [rotate(arg, args[0], sizes[0], settings) for arg in args[1:]]
        assert member.factory == "Attention", member.factory
        return [self.attention(sizes[0], settings, *args)]

    def norm(self, factory: str, path: str, settings: dict[str, Any], args: list[Any], results: int) -> list[Any]:
        x, total = args[0], args[0]
        if results == 2:
            total = x if args[1] is None else x + args[1]
            x = total
        weighted = settings.get("has_weight", True) and settings.get("elementwise_affine", True)
        weight = self.weight(f"{path}.weight") if weighted else None
        if factory == "LayerNorm":
            bias = self.weight(f"{path}.bias") if weighted and settings.get("bias", True) else None
            normed = functional.layer_norm(x, x.shape[-1:], weight, bias, settings["eps"])
        else:
            normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + settings["eps"])
            if weight is not None:
                normed = normed * (weight + 1 if factory == "GemmaRMSNorm" else weight)
        return [normed, total] if results == 2 else [normed]

    def attention(self, head_dim: int, settings: dict[str, Any], *operands: torch.Tensor) -> torch.Tensor:
        """Causal attention of each sequence by itself."""
        q, k, v = (x.reshape(self.sequences, self.length, -1, head_dim).transpose(1, 2) for x in operands)
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
        scores = q @ k.transpose(2, 3) * settings["scale"]
        distance = torch.arange(self.length)[:, None] - torch.arange(self.length)
        window = settings.get("per_layer_sliding_window") or self.length
        scores = scores.masked_fill((distance < 0) | (distance >= window), -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(self.sequences * self.length, -1)


def rotate(x: torch.Tensor, positions: torch.Tensor, head_dim: int, settings: dict[str, Any]) -> torch.Tensor:
    """Rotation of the first elements of each head, ``[tokens, heads * head_dim]``."""
    theta, dim = settings["rope_parameters"]["rope_theta"], settings["rope_parameters"].get("rope_dim", head_dim)
    angles = positions[:, None] / theta ** (torch.arange(0, dim, 2) / dim)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    heads, rest = x.reshape(x.shape[0], -1, head_dim).split([dim, head_dim - dim], dim=-1)
    if settings.get("is_neox_style", True):
        first, second = heads.chunk(2, dim=-1)
        turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    else:
        first, second = heads[..., 0::2], heads[..., 1::2]
        turned = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)
    return torch.cat((turned, rest), dim=-1).reshape(x.shape)


def loaded(model: LoweredModel, checkpoint: Tensors) -> dict[tuple[str, Any], torch.Tensor]:
    """The checkpoint's tensors by their names and shards in the adapter, rows in the engine's order."""
    weights = {}
    for name, stored in checkpoint.items():
        tensor = stored.t() if name.endswith(tuple(model.weights.transposed)) else stored
        for regroup in model.weights.regroups:
            if regroup.path.rpartition("*")[2] + "." in name:
                split = tensor.unflatten(0, (regroup.groups, -1)).split(list(regroup.sizes), dim=1)
                tensor = torch.cat([split[regroup.order.index(part)].flatten(0, 1) for part in range(len(split))])
        place = model.weights.map(name)
        if place is not None:
            weights[place] = tensor
    return weights


def logits(model: LoweredModel, checkpoint: Tensors, input_ids: torch.Tensor) -> torch.Tensor:
    """``[batch, sequence, vocabulary]``."""
    sequences, length = input_ids.shape
    engine = Engine(model, loaded(model, checkpoint), sequences, length)
    given = {POSITIONS: torch.arange(length).repeat(sequences), NO_RESIDUAL: None}
    inputs = [given.get(value, input_ids.reshape(-1)) for value in model.root.inputs]
    values = dict(zip(model.root.inputs, inputs, strict=True))
    token_ids = next(step.results[0] for step in model.root.steps if step.name == "input")
    values[token_ids] = input_ids.reshape(-1)
    for step in model.root.steps:
        values.update(zip(step.results, engine.step(step, model.root, "", values), strict=True))
    hidden = values[model.root.outputs[0]]
    settings = {key: engine.value(value) for key, value in model.head.processor.kwargs.items()}
    table = f"{model.head.tied}.weight" if model.head.tied else "lm_head.weight"
    bias = engine.weight("lm_head.bias") if model.head.has_bias else None
    result = functional.linear(hidden, engine.weight(table), bias)
    if "soft_cap" in settings:
        result = torch.tanh(result / settings["soft_cap"]) * settings["soft_cap"]
    return (result * settings.get("scale", 1.0)).reshape(sequences, length, -1)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
