"""Operators, writes in place and shared memory: the graph computes what torch computes."""

import pytest
from both_ways import model, read, same_both_ways

OPERATORS = {
    "arithmetic": "x = 1.0 - x * 2 + x / 3 - (2 / (x * x + 1)) ** 0.5\nx = -x // 1 + x % 2",
    "matrix product": "x = x @ x.transpose(-1, -2) @ x",
    "comparison": "x = torch.where(x > 0, x, 0.1 * x) + (x == x).to(x.dtype) + (x <= 0.5).float()",
    "bits": "x = x * (~(x > 0) & (x < 1) | (x > 1)).float()",
    "keywords": "x = torch.softmax(input=x, dim=-1) + x.mean(-1, True) + torch.sum(x, axis=-1, keepdims=True)",
    "results with names": "x = x + x.topk(3, dim=-1).values.sum(-1, keepdim=True) + x.sort().indices",
    "results unpacked": "values, places = torch.topk(x, 2)\nx = x.gather(-1, places) * values",
    "maximum of two": "x = torch.max(x, x.flip(-1)) + x.max(dim=-1, keepdim=True)[0] - x.min()",
    "split": "a, b = x.split([3, 5], dim=-1)\nc, d = x.chunk(2, -1)\nx = torch.cat((b, a), dim=-1) + torch.cat([d, c], -1)",
    "views": "x = x.view(*x.shape[:-1], 2, -1).permute(0, 1, 3, 2).reshape(x.shape)",
    "sizes": "b, s, h = x.shape\nx = x.reshape(b * s, h).unsqueeze(1).expand(-1, 3, -1).sum(1).view(b, -1, x.size(-1))",
    "slices": "x = torch.cat([x[..., 4:], x[..., :4]], dim=-1) + x[:, -1:, None][:, :, 0] + x[:, :, ::2].sum()",
    "dtypes": "y = x.to(torch.float64)\nx = (y.half().type_as(x) + y.long()).float().to(x)",
    "creation": "x = x + torch.arange(x.shape[1])[:, None] / 10 + x.new_ones(8) + torch.zeros_like(x) + torch.full((8,), 2.0)",
    "einsum": "x = torch.einsum('bsh,bth->bst', x, x) @ x",
    "norms": "x = F.layer_norm(x, (8,)) + F.normalize(x, dim=-1) + F.rms_norm(x, (8,), eps=1e-3)",
    "attribute form": "x = x.mT.mT + (x[0].T @ x[0]).sum()",
    "what leaves values alone": "x = F.dropout(x, p=0.1, training=self.training).contiguous().clone().detach()",
    "numbers from data": "x = x * x.sum().item() + x[:, int(input_ids[0, 0] * 0)].unsqueeze(1)",
    "sizes asked for": "x = x * x.numel() / x.size(-1) + x.dim() + len(x) + x.nelement() + x.ndim + x.shape.numel()",
    "shapes of others": "x = x.reshape(-1).view_as(x) + x[:1, :1].expand_as(x) + x.flatten().reshape_as(x)",
    "shapes in lists": "x = x.view(list(x.shape)).repeat([1, 1, 2]).unflatten(-1, (2, 8)).permute([0, 1, 3, 2]).flip(-1).sum(-1)",
    "torch's forms of views": "x = torch.reshape(torch.permute(x, (0, 2, 1)), x.shape) + torch.unflatten(x, -1, (2, 4)).flatten(-2)",
    "made from others": "x = x + x.new_zeros(8) + x.new_full((8,), 2) + x.new_tensor([1.0] * 8) + x.new_ones((1, 8))",
    "made from numbers": "x = x @ torch.eye(8) + torch.linspace(0, 1, 8) + torch.tensor([1, 2] * 4) + torch.tensor(1.5) + torch.arange(2, 10)",
    "questions about types": (
        "y = torch.is_tensor(x) and torch.is_floating_point(x) and x.is_floating_point() and x.dtype.is_floating_point\n"
        "x = x * (2 if y and x.is_contiguous() and isinstance(x, torch.Tensor) and type(x) is torch.Tensor else 3)"
    ),
    "limits": "x = x.masked_fill(x > 0, torch.finfo(torch.float32).min).clamp(min=torch.finfo(torch.float16).min) + torch.iinfo(torch.int8).max",
    "devices": "x = torch.zeros(8, device=x.device) + x.to(x.device).to(torch.device('cpu'), x.dtype).cpu() + (x.device.type == 'cuda')",
    "old casts": "x = x.double().float() + x.int().bool().long() + x.type(torch.float64).type_as(x)",
    "modes": "with torch.no_grad(), torch.autocast(device_type='cpu', enabled=False):\n    x = x + torch.is_autocast_enabled()",
    "quantile": "x = x + torch.distributions.normal.Normal(0, 1).icdf(torch.tensor(0.95)) * 0",
    "checkpointing": "import torch.utils.checkpoint\nx = torch.utils.checkpoint.checkpoint(lambda y: y * 2, x, use_reentrant=False)",
    "walrus": "x = y + 1 if (y := x * 2) is not None else x",
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, tmp_path):
    same_both_ways(tmp_path, model(OPERATORS[name]))


IN_PLACE = {
    "augmented": "y = x\nx += 1\nx *= y\nx /= 2\nx -= 0.5",
    "augmented keeps the dtype": "y = input_ids.clone()\ny += 1\ny *= 2\nx = x + y[..., None]\nz = x.half()\nz += x\nx = x + z",
    "methods": "y = x.clone()\ny.mul_(2).add_(1)\ny.clamp_(min=0)\nx = x + y",
    "fill": "y = x.clone()\ny.zero_()\nz = x.clone()\nz.fill_(3.0)\nx = x + y + z",
    "copy": "y = torch.empty_like(x)\ny.copy_(x * 2)\nx = x + y",
    "copy broadcasts": "y = torch.zeros_like(x)\ny.copy_(x[:, :1])\nx = x + y",
    "masked fill": "x.masked_fill_(x > 0, -1.0)",
    "item": "x[:, 0] = 1.0\nx[..., 1:3] = x[..., 3:5]\nx[:, :, 7] += 2",
    "item by mask": "x[x < 0] = 0.5",
    "index add": "y = torch.zeros_like(x[0])\ny.index_add_(0, torch.tensor([0, 2, 0]), x[0, :3])\nx = x + y",
    "scatter": "y = torch.zeros_like(x)\ny.scatter_(-1, x.topk(2).indices, 1.0)\nx = x * y",
    "alias": "y = x\ny.add_(1)\nx = x + y",
    "detach shares": "y = x.detach()\ny.add_(1)\nx = x * 2",
    "list of cells": "parts = [x[:, :2].clone(), x[:, 2:].clone()]\nfor part in parts:\n    part *= 2\nx = torch.cat(parts, 1)",
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_writes_in_place(name, tmp_path):
    same_both_ways(tmp_path, model("x = x.clone()\n" + IN_PLACE[name]))


SHARED = {
    "write through an index": "y = x[:, 0]\ny.mul_(3)\ny += 1",
    "write through a slice of a slice": "y = x[:, 1:][..., 2:4]\ny.zero_()",
    "write through a reshape": "x.view(-1, 4).add_(1)",
    "write through a transpose": "x.transpose(0, 1)[1] = 7.0",
    "write through a permutation": "y = x.permute(2, 0, 1)\ny[3] += 5",
    "write through an added dimension": "x.unsqueeze(1)[:, 0, 0].fill_(2.0)",
    "view sees a later write": "y = x[:, 0]\nx.add_(1)\nx = x + y[:, None]",
    "view of a view sees a later write": "y = x.view(-1, 8)[0]\nx.mul_(2)\ny.add_(1)\nx = x * y",
    "copy does not see it": "y = x[:, 0].clone()\nx.add_(1)\nx = x + y[:, None]",
    "an index by tensor copies": "y = x[:, torch.tensor([0, 1])]\ny.zero_()\nx = x + y.sum()",
}


@pytest.mark.parametrize("name", SHARED)
def test_shared_memory(name, tmp_path):
    same_both_ways(tmp_path, model("x = x.clone()\n" + SHARED[name]))


def test_arguments_are_written_in_one_form(tmp_path):
    forms = [
        "x.mean(-1, keepdim=True)",
        "torch.mean(x, dim=-1, keepdim=True)",
        "torch.mean(input=x, axis=-1, keepdim=True)",
    ]
    graph = same_both_ways(tmp_path, model("x = x + " + " + ".join(forms)))
    means = [(len(node.args), node.kwargs) for node in graph.nodes if node.op == "mean"]
    assert means == [(1, {"dim": -1, "keepdim": True})] * 3


def test_dropout_that_stays_on_is_unknown(tmp_path):
    (node,) = read(tmp_path, model("x = F.dropout(x, p=0.1)")).unknowns()
    assert "dropout" in node.args[0]


def test_same_operator_under_any_name(tmp_path):
    graph = same_both_ways(
        tmp_path, model("x = torch.add(x, 1) + x.mul(2).multiply(3)\nx = torch.greater(x, 0) * x.true_divide(2)")
    )
    assert [node.op for node in graph.nodes if node.frame == 1][1:] == ["add", "mul", "mul", "add", "gt", "div", "mul"]


def test_marks_of_other_packages_are_not_there(tmp_path):
    """Quantised weights carry attributes such as ``SCB``; the source asks for them before it uses them."""
    forward = "if hasattr(self.embed.weight, 'SCB'):\n    x = x * self.embed.weight.SCB\nx = x.transpose(0, 1).T"
    same_both_ways(tmp_path, model(forward.replace(".T", ".mT")))


def test_what_a_lambda_makes_stands_on_its_own_line(tmp_path):
    source = model("x = self.act(x)", init="self.act = lambda t: t.tanh()")
    (node,) = (each for each in read(tmp_path, source).nodes if each.op == "tanh")
    assert "lambda" in source.split("\n")[node.where.line - 1]
