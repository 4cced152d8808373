"""Code that changes what other code does: followed where it is the source's own, named where it is a library's."""

import pytest
from both_ways import model, read, same_both_ways

PART = """
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.eps = 1.0

    def forward(self, x):
        return F.silu(self.linear(x)) / math.sqrt(2.0) + self.eps

"""
FOLLOWED = {
    "forward of one module": ("self.part.linear.forward = lambda x: x * 3", ""),
    "forward of another module": ("self.other = Part()\nself.part.forward = self.other.forward", ""),
    "setattr": ("setattr(self.part, 'forward', lambda x: x * 3)", ""),
    "bound method": ("import types\nself.part.forward = types.MethodType(lambda this, x: x * this.eps, self.part)", ""),
    "forward of a class": ("", "Part.forward = lambda self, x: x * 3"),
    "call": ("", "Part.__call__ = lambda self, x: x * 3"),
    "call around forward": (
        "",
        "class Outer(Part):\n    def __call__(self, x):\n        return super().__call__(x) * 3\nPart = Outer",
    ),
    "apply": (
        "def smooth(module):\n    if isinstance(module, Part):\n        module.eps = 0.5\nself.apply(smooth)",
        "",
    ),
    "setter of a class": (
        "self.part.eps = 4.0",
        "class Careful(Part):\n    def __setattr__(self, name, value):\n"
        "        super().__setattr__(name, 7.0 if name == 'eps' else value)\n"
        "Part = Careful",
    ),
    "object's setter": ("object.__setattr__(self.part, 'eps', 0.5)", ""),
    "made with the class": (
        "",
        "class Base(nn.Module):\n    def __init_subclass__(cls, factor=1.0):\n"
        "        cls.forward = lambda self, x: x * factor\nclass Part(Base, factor=3.0):\n    pass",
    ),
    "decorated class": (
        "",
        "def turned(cls):\n    cls.forward = lambda self, x: x * 3\n    return cls\nPart = turned(Part)",
    ),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_changes_of_the_source_s_own_are_followed(name, tmp_path):
    init, extra = FOLLOWED[name]
    same_both_ways(tmp_path, model("x = self.part(x)", f"self.part = Part()\n{init}", PART + extra))


NAMED = {
    "function": "F.silu = F.gelu",
    "by another name": "import torch.nn.functional as G\nG.silu = G.gelu",
    "setattr": "setattr(F, 'silu', F.gelu)",
    "setattr of a computed name": "for name in ('silu',):\n    setattr(F, name, F.gelu)",
    "dictionary": "F.__dict__['silu'] = F.gelu",
    "vars": "vars(F)['silu'] = F.gelu",
    "with what is not known": "import somewhere\nF.silu = somewhere.silu",
    "in a function that is called": "def patch():\n    F.silu = F.gelu\npatch()",
    "under a condition": "if math.pi > 3:\n    F.silu = F.gelu",
    "in an attempt": "try:\n    F.silu = F.gelu\nexcept AttributeError:\n    pass",
    "mock": "from unittest import mock\nmock.patch.object(F, 'silu', F.gelu).start()",
    "square root": "math.sqrt = lambda number: 1.0",
    "class": "nn.Linear.forward = lambda self, x: x",
    "base class": "nn.Module.__call__ = lambda self, x: x",
    "operator of tensors": "torch.Tensor.__mul__ = lambda this, other: this",
}


@pytest.mark.parametrize("name", NAMED)
def test_changes_of_a_library_are_named(name, tmp_path):
    graph = read(tmp_path, model("x = self.part(x) * 2", "self.part = Part()", PART + NAMED[name]))
    reasons = [node.args[0] for node in graph.unknowns()]
    assert any("replaced in modeling_sample.py" in reason for reason in reasons), reasons


def test_only_what_is_replaced_is_not_known(tmp_path):
    same_both_ways(tmp_path, model("x = F.silu(x)", extra="torch.backends.cuda.matmul.allow_tf32 = True"))


def test_changes_in_a_file_that_is_imported(tmp_path):
    (tmp_path / "patches.py").write_text("import torch.nn.functional as F\n\n\ndef apply():\n    F.silu = F.gelu\n")
    for call in ("import patches\npatches.apply()", "from patches import apply\napply()"):
        graph = read(tmp_path, model("x = F.silu(x)", extra=call))
        assert [node.args[0] for node in graph.unknowns()] == ["torch.nn.functional.silu is replaced in patches.py:5"]


HIDDEN = (
    "exec('F.silu = F.gelu')",
    "globals()['Part'] = nn.Identity",
    "globals().update(Part=nn.Identity)",
    "import sys\nsys.modules[__name__].Part = nn.Identity",
    "for name in ('Part',):\n    globals()[name] = nn.Identity",
)


@pytest.mark.parametrize("extra", HIDDEN)
def test_names_that_are_bound_by_text_are_not_known(extra, tmp_path):
    with pytest.raises(Exception, match=r"bound in a file whose names|is not a class"):
        read(tmp_path, model("x = self.part(x)", "self.part = Part()", PART + extra))
