"""A layer is interpreted once for all that compute the same, and the graph is what it would be without that."""

import textwrap

import pytest
from both_ways import SIZES, model, read, same_both_ways
from kunport.analysis import analyze
from kunport.analysis.interpreter import replay

# What differs from one layer to the next -> what a layer's constructor and forward do, and how many of the five layers
# are written down from an earlier one.
LAYERS = {
    "nothing": ("", "return self.norm(x) + x", 4),
    "an index that is not read": ("self.index = index", "return self.norm(x)", 4),
    "an index that is read": ("self.index = index", "return self.norm(x) * self.index", 0),
    "an index that decides": ("self.index = index", "return self.norm(x) if self.index % 2 else x + 1", 0),
    "an index behind getattr": ("self.index = index", "return self.norm(x) * getattr(self, 'index', 1)", 0),
    "an index behind a property": ("self.index = index", "return self.norm(x) * self.twice", 0),
    "an index behind a dictionary": ("self.index = index", "return self.norm(x) * vars(self)['index']", 0),
    "an index in a list": ("self.sizes = [index, 1]", "return self.norm(x) * self.sizes[0]", 0),
    "an index in a closure": ("self.act = lambda y: y * index", "return self.act(self.norm(x))", 0),
    "a closure beside one": ("self.act = lambda y: y * 2", "return self.act(self.norm(x))", 0),
    "a function of the source": ("self.act = act", "return self.act(self.norm(x))", 4),
    "a function of torch": ("self.act = F.gelu", "return self.act(self.norm(x))", 4),
    "every second": ("self.wide = bool(index % 2)", "return self.norm(x) if self.wide else x * 3", 3),
    "a leaf's number": ("self.norm = nn.LayerNorm(8, eps=10.0 ** -index)", "return self.norm(x)", 0),
    "the size of a leaf": ("self.up = nn.Linear(8, 8 + index)", "return x + self.up(x).sum(-1, keepdim=True)", 0),
    "a constant tensor": ("self.register_buffer('c', torch.ones(8) * index, persistent=False)", "return x + self.c", 0),
    "the same tensor": ("self.register_buffer('c', torch.arange(8.0), persistent=False)", "return x + self.c", 4),
    "a parameter": ("self.c = nn.Parameter(torch.ones(8))", "return x + self.c", 4),
    "a shared parameter": ("self.c = shared", "return x + self.norm(x) * self.c", 4),
    "a child's class": ("self.norm = nn.LayerNorm(8) if index else nn.RMSNorm(8)", "return self.norm(x)", 3),
    "a field of its own": ("self.scale = config.scales[index]", "return self.norm(x) * self.scale", 0),
    "an equal field": ("self.kind = config.kinds[index]", "return self.norm(x) if self.kind == 'a' else x", 4),
    "an equal field, read of the configuration as well": ("self.kind, self.config = config.kinds[index], config", "return self.norm(x) if self.kind == self.config.kinds[0] else x", 0),
    "a field for two sizes": ("self.up = nn.Linear(config.wide[index], config.wide[0], bias=False)", "return x + self.up(x)", 3),
    "a size of its own": ("self.up = nn.Linear(8, config.wide[index], bias=False)", "return x + self.up(x)", 3),
    "a dtype": ("self.kind = getattr(torch, config.kind)", "return self.norm(x).to(self.kind)", 3),
    "a dtype of its own": ("self.kind = torch.float32 if index % 2 else torch.float64", "return self.norm(x).to(self.kind).to(torch.float32)", 2),
    "a write to itself": ("self.seen = 0", "self.seen = 1 - bool(self.seen)\nreturn self.norm(x) + 1", 0),
    "a write to a list": ("self.log = shared_list", "self.log.append(1)\nreturn x * len(self.log)", 0),
    "a list that others write to": ("self.log, self.index = shared_list, index", "if self.index % 2 == 0:\n    self.log.append(x)\nreturn self.norm(x) + self.log[-1]", 0),
    "an object that others write to": ("self.box, self.index = box, index", "if self.index % 2 == 0:\n    self.box.held = x\nreturn self.norm(x) + self.box.held", 0),
    "an object of its own": ("", "inner = Box()\ninner.held = x\nreturn self.norm(x) + inner.held", 4),
    "a write to the input": ("", "x[..., 0] = 1.0\nreturn self.norm(x)", 0),
    "a write to a tensor of its own": ("", "y = self.norm(x)\ny[..., 0] = 1.0\nreturn y + x", 4),
    "a view as the result": ("", "return self.norm(x).transpose(1, 2).transpose(1, 2)", 0),
    "two results": ("", "return self.norm(x), None", 4),
    "rows that the data choose": ("", "rows = x.reshape(-1, 8)\nk = (rows[:, 0] > 0).nonzero()[:, 0]\n"
        "return x + torch.zeros_like(rows).index_add(0, k, rows[k]).view(x.shape)", 4),
}  # fmt: skip
EXTRA = """
shared_list = []

class Box:
    pass

box = Box()

def act(x):
    return x * 2

class Layer(nn.Module):
    def __init__(self, config, index, shared):
        super().__init__()
        self.norm = nn.LayerNorm(8)
{init}

    @property
    def twice(self):
        return 2 * self.index

    def forward(self, x):
{forward}
"""
INIT = """
self.shared = nn.Parameter(torch.ones(8))
self.layers = nn.ModuleList(Layer(config, index, self.shared) for index in range(5))
"""
FORWARD = """
for layer in self.layers:
    x = layer(x)
    x = x[0] if isinstance(x, tuple) else x
"""
CONFIG = {"scales": [1.0, 2.0, 3.0, 4.0, 5.0], "kinds": ["a"] * 5, "wide": [8] * 5, "kind": "float32"}


@pytest.fixture
def repeated(monkeypatch):
    """The modules that were written down from an earlier run."""
    paths = []
    real = replay.Replay.repeat

    def repeat(self, interpreter, module, inputs):
        result = real(self, interpreter, module, inputs)
        if result is not replay.NOTHING:
            paths.append(module.path)
        return result

    monkeypatch.setattr(replay.Replay, "repeat", repeat)
    return paths


def parts(graph):
    """What a graph says, notes aside: those name what was looked at."""
    return [repr(part) for part in (graph.nodes, graph.frames, graph.guards, graph.output, graph.tied)]


@pytest.mark.parametrize("name", LAYERS)
def test_what_differs_is_never_passed_over(name, tmp_path, repeated, monkeypatch):
    init, forward, expected = LAYERS[name]
    extra = EXTRA.format(init=textwrap.indent(init, " " * 8), forward=textwrap.indent(forward, " " * 8))
    source = model(FORWARD, INIT, extra)
    graph = same_both_ways(tmp_path, source, SIZES[:1], **CONFIG)  # some models are others at their second run
    assert len(repeated) == expected
    monkeypatch.setattr(replay.Replay, "repeat", lambda *_: replay.NOTHING)
    assert parts(read(tmp_path, source, **CONFIG)) == parts(graph)


@pytest.mark.parametrize("name", ["gemma3_text", "qwen3_next", "deepseek_v3"])
def test_real_models_are_read_the_same(name, repeated, monkeypatch):
    config = {"num_hidden_layers": 8, "layer_types": None}
    graph = analyze(name, config=config).graph
    assert repeated
    monkeypatch.setattr(replay.Replay, "repeat", lambda *_: replay.NOTHING)
    assert parts(analyze(name, config=config).graph) == parts(graph)


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("return self.norm(x) + row", 4),
        ("return self.norm(x) + row.transpose(0, 1).transpose(0, 1)", 4),
        ("row[..., 0] = 1.0\nreturn self.norm(x) + row", 0),
        ("return self.norm(x) + row.mul_(2)", 0),
    ],
)
@pytest.mark.parametrize("between", ["pass", "rows[0] = 0.5", "rows[:, :, 0] = x[:, 0]"])
def test_views_as_inputs(forward, expected, between, tmp_path, repeated, monkeypatch):
    extra = EXTRA.format(init="", forward=textwrap.indent(forward, " " * 8)).replace(
        "forward(self, x)", "forward(self, x, row)"
    )
    run = f"""
rows = torch.stack([x * index for index in range(5)])
for index, layer in enumerate(self.layers):
    row = rows[index]
    {between}
    x = layer(x, row)
"""
    graph = same_both_ways(tmp_path, model(run, INIT, extra), SIZES[:1])
    assert len(repeated) == (expected if between == "pass" else 0)
    monkeypatch.setattr(replay.Replay, "repeat", lambda *_: replay.NOTHING)
    assert parts(read(tmp_path, model(run, INIT, extra))) == parts(graph)
