"""Runs model source twice, by torch as it stands and by its graph, and compares."""

import textwrap
import types

import torch
from kunport.analysis.assemble import assemble
from kunport.analysis.source import Root
from kunport.validation.executor import execute
from kunport_codegen.expression import unwrap

HEADER = "import math\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
SIZES = ((2, 11), (1, 5))


def model(forward, init="", extra=""):
    """Source of a model whose forward runs these statements on ``x`` ``[batch, sequence, 8]`` and returns ``x``."""
    return (
        HEADER
        + textwrap.dedent(extra)
        + "\n\nclass Model(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        + "        self.config = config\n        self.embed = nn.Embedding(16, 8)\n"
        + textwrap.indent(textwrap.dedent(init), " " * 8)
        + "\n    def forward(self, input_ids):\n        x = self.embed(input_ids)\n"
        + textwrap.indent(textwrap.dedent(forward), " " * 8)
        + "\n        return x\n"
    )


def read(folder, source, **config):
    """The graph of the class ``Model`` of the source."""
    (folder / "modeling_sample.py").write_text(source)
    return assemble("modeling_sample", "Model", [Root(folder)], config, None).graph


def build(source, **config):
    """The class ``Model`` of the source as torch makes it, with random state."""
    module = types.ModuleType("modeling_sample")
    exec(compile(source, "modeling_sample.py", "exec"), module.__dict__)
    torch.manual_seed(0)
    made = module.Model(types.SimpleNamespace(**config)).eval()
    for tensor in made.state_dict().values():
        if tensor.is_floating_point():
            torch.nn.init.normal_(tensor)
    return made


def state(made):
    named = dict(made.named_parameters(remove_duplicate=False)) | dict(made.named_buffers(remove_duplicate=False))
    return {name: tensor.detach() for name, tensor in named.items()}


def same_both_ways(folder, source, sizes=SIZES, **config):
    """Asserts that graph and torch agree to the bit at these sizes; gives the graph."""
    graph = read(folder, source, **config)
    assert not graph.unknowns(), [(str(node.where), node.args[0]) for node in graph.unknowns()]
    made = build(source, **config)
    shapes = {name: tuple(tensor.shape) for name, tensor in made.named_parameters(remove_duplicate=False)}
    assert {p.path: tuple(map(unwrap, p.shape)) for p in graph.parameters.values() if not p.buffer} == shapes
    assert {path: module.cls for path, module in graph.modules.items()} == {
        path: type(module).__name__ for path, module in made.named_modules()
    }
    for batch, length in sizes:
        ids = torch.randint(16, (batch, length), generator=torch.Generator().manual_seed(length))
        with torch.no_grad():
            expected, got = made(ids), execute(graph, state(made), ids)
        assert got.dtype == expected.dtype
        assert torch.equal(got, expected), (batch, length, (got - expected).abs().max())
    return graph
