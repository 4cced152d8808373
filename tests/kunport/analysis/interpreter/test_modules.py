"""torch.nn as the source uses it: tree, parameters, results."""

import pytest
import torch
from both_ways import build, model, read, same_both_ways, state
from kunport.validation.executor import execute

LEAVES = {
    "linear": ("nn.Linear(8, 8)", "f(x)"),
    "linear without bias": ("nn.Linear(8, 12, bias=False)", "f(x)"),
    "embedding": ("nn.Embedding(16, 8, padding_idx=0)", "x + f(input_ids)"),
    "layer norm": ("nn.LayerNorm(8, eps=1e-3)", "f(x)"),
    "layer norm without bias": ("nn.LayerNorm(8, bias=False)", "f(x)"),
    "layer norm without state": ("nn.LayerNorm(8, elementwise_affine=False)", "f(x)"),
    "rms norm": ("nn.RMSNorm(8, eps=1e-6)", "f(x)"),
    "group norm": ("nn.GroupNorm(2, 8)", "f(x.reshape(-1, 8)).view(x.shape)"),
    "convolution": (
        "nn.Conv1d(8, 8, 3, padding=2, groups=8)",
        "f(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)",
    ),
    "padding": ("nn.ZeroPad2d((0, 0, 1, -1))", "f(x)"),
    "sequential": ("nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8))", "f(x) + f[0](x).sum() + len(f)"),
    "list": ("nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])", "f[-1](f[0](x)) + sum(g(x) for g in f[1:])"),
    "dictionary": ("nn.ModuleDict({'a': nn.Linear(8, 8), 'b': nn.Identity()})", "f['a'](x) + f['b'](x)"),
    "parameters": ("nn.ParameterList([nn.Parameter(torch.ones(8))])", "x * f[0]"),
    "dropout": ("nn.Dropout(0.5)", "f(x)"),
}
for _name in ("SiLU()", "GELU()", "GELU('tanh')", "ReLU()", "ReLU6()", "Sigmoid()", "Tanh()", "Mish()", "Hardswish()"):
    LEAVES[_name] = (f"nn.{_name}", "f(x)")
for _name in ("Softmax(dim=-1)", "LeakyReLU(0.2)", "Softplus()", "ELU()", "LogSigmoid()"):
    LEAVES[_name] = (f"nn.{_name}", "f(x)")


@pytest.mark.parametrize("name", LEAVES)
def test_leaves_and_containers(name, tmp_path):
    made, used = LEAVES[name]
    same_both_ways(tmp_path, model(f"f = self.f\nx = {used}", init=f"self.f = {made}"))


def test_submodules_of_the_source(tmp_path):
    extra = """
    class Norm(nn.LayerNorm):
        def forward(self, x, scale=1.0):
            return super().forward(x) * scale

    class Block(nn.Module):
        def __init__(self, width, *, index):
            super().__init__()
            self.index = index
            self.norm = Norm(width)
            self.extra = nn.Parameter(torch.zeros(width, width))
            self.register_parameter("absent", None)

        def forward(self, x):
            return x + self.norm(x, scale=self.index) @ self.extra
    """
    init = "self.blocks = nn.ModuleList(Block(8, index=i) for i in range(2))\nself.add_module('last', Norm(8))"
    graph = same_both_ways(
        tmp_path, model("for block in self.blocks:\n    x = block(x)\nx = self.last(x)", init, extra)
    )
    assert graph.modules["blocks.1.norm"].leaf == "LayerNorm"
    assert graph.modules["blocks.1"].attributes["index"] == 1
    assert graph.modules["blocks.1"].children == ["blocks.1.norm"]
    frames = {frame.path: frame for frame in graph.frames if frame.kind == "module"}
    assert frames["blocks.1.norm"].parent == frames["blocks.1"].id
    assert set(frames["blocks.1.norm"].inputs) == {"x", "scale"}
    assert graph.frames[1].name == "Model"


def test_saved_buffers_are_state_and_others_are_computed(tmp_path):
    init = "self.register_buffer('saved', torch.zeros(8))\n"
    init += "self.register_buffer('table', torch.arange(8) / config.base, persistent=False)\n"
    init += "self.other = nn.Buffer(self.table * 2, persistent=False)"
    graph = same_both_ways(tmp_path, model("x = x + self.saved + self.table + self.other", init), base=3.0)
    assert [(each.path, each.buffer) for each in graph.parameters.values()] == [
        ("embed.weight", False),
        ("saved", True),
    ]
    made = build(model("x = x + self.saved + self.table + self.other", init), base=3.0)
    ids = torch.zeros(1, 3, dtype=torch.int64)
    tensors = {name: tensor for name, tensor in state(made).items() if name in ("embed.weight", "saved")}
    assert torch.equal(execute(graph, tensors, ids), made(ids).detach())


def test_shared_tensors_and_modules(tmp_path):
    init = "self.head = nn.Linear(8, 16, bias=False)\nself.head.weight = self.embed.weight\nself.again = self.head"
    graph = same_both_ways(tmp_path, model("x = self.head(x) + self.again(x)", init))
    assert graph.tied == [("head.weight", "embed.weight"), ("again.weight", "embed.weight")]
    assert "again" not in graph.modules


def test_a_copied_module_has_its_own_parameters(tmp_path):
    init = "import copy\nself.a = nn.Linear(8, 8)\nself.b = copy.deepcopy(self.a)"
    same_both_ways(tmp_path, model("x = self.b(self.a(x))", init))


def test_a_parameter_that_is_removed_again(tmp_path):
    init = "self.a = nn.Linear(8, 8)\nself.a.bias = None\nself.c = nn.Linear(8, 8)\ndel self.c"
    same_both_ways(tmp_path, model("x = self.a(x)", init))


def test_dtypes_of_the_model_and_others(tmp_path):
    init = "self.scale = nn.Parameter(torch.ones(8))\nself.fixed = nn.Parameter(torch.ones(8, dtype=torch.float64))"
    graph = read(tmp_path, model("x = (x.float() * self.scale).to(x.dtype) + self.fixed.to(self.scale.dtype)", init))
    assert graph.parameters["scale"].dtype.name == "model"
    assert graph.parameters["fixed"].dtype.name == "float64"
    assert [node.dtype.name for node in graph.nodes if node.op == "to"] == ["float32", "model", "model"]


def test_a_function_with_its_own_gradient(tmp_path):
    extra = """
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad
    """
    same_both_ways(tmp_path, model("x = Twice.apply(x)", extra=extra))


def test_whole_numbers_that_a_constructor_divides_have_the_dtype_that_the_model_is_made_in(tmp_path):
    extra = """
    def numbers_of(x):
        return torch.arange(4) / 2
    """
    init = """
        numbers = torch.arange(4)
        self.register_buffer("halves", numbers / 2, persistent=False)
        self.register_buffer("powers", 0.5**numbers, persistent=False)
        self.register_buffer("exact", numbers.float() / 2, persistent=False)
    """
    graph = read(
        tmp_path, model("x = x[..., :4] * self.halves * self.powers\nx = x + numbers_of(x) + self.exact", init, extra)
    )
    made = {node.op: node.dtype.name for node in graph.nodes if node.op in ("pow", "mul")}
    assert made == {"pow": "model", "mul": "model"}
    assert [node.dtype.name for node in graph.nodes if node.op == "add"] == ["float32", "float32"]
