"""Changes of an attention that keys cannot say: they are opaque, or `unexplained` names the line."""

import pytest
from test_changed_models import _facts

ROTATE_Q, ROTATE_K = "        q = turned(q, cos, sin)\n", "        k = turned(k, cos, sin)\n"


def part(what: str, kept: str, rest: str, axis: int) -> str:
    """A statement that rotates only what ``kept`` cuts out."""
    return f"        {what} = torch.cat((turned({what}, cos, sin)[{kept}], {what}[{rest}]), {axis})\n"


# What is changed -> the key that tells, the text that is replaced and by what.
CHANGES = {
    "two heads of queries rotated": ("position.kind", ROTATE_Q, part("q", ":, :2", ":, 2:", 1)),
    "one head of keys rotated": ("position.kind", ROTATE_K, part("k", ":, :1", ":, 1:", 1)),
    "an element of keys left": ("position.dims", ROTATE_K, part("k", "..., :7", "..., 7:", -1)),
    "tokens left": ("position.kind", ROTATE_Q, part("q", ":, :, :2", ":, :, 2:", 2)),
    "other elements of keys": (
        "position.dims",
        ROTATE_Q + ROTATE_K,
        "        q = torch.cat((turned(q[..., :4], cos[:, :4], sin[:, :4]), q[..., 4:]), -1)\n"
        "        k = torch.cat((k[..., :4], turned(k[..., 4:], cos[:, :4], sin[:, :4])), -1)\n",
    ),
    "longer cosines": ("attention.scale", "(angles.cos(), angles.sin())", "(angles.cos() * 1.2, angles.sin() * 1.2)"),
    "one head of keys for all": ("unexplained", "# heads", "k = k[:, :1].expand(b, self.groups, t, self.size)"),
    "one head of values for all": ("unexplained", "# heads", "v = v[:, 1:].expand(b, self.groups, t, self.size)"),
    "one head of queries for all": ("unexplained", "# heads", "q = q[:, :1].expand(b, self.heads, t, self.size)"),
    "a softmax in bfloat16": ("unexplained", "+ mask, dim=-1)", "+ mask, dim=-1, dtype=torch.bfloat16).to(x.dtype)"),
    "a gate of the result": ("attention.gate", "# attended", "y = y * torch.sigmoid(self.o(y))"),
    "a gate of rotated queries": (
        "attention.gate",
        "# attended",
        "y = y * torch.sigmoid(q.transpose(1, 2).reshape(b, t, -1))",
    ),
    "a bias after the rotation": ("unexplained", "# heads", "q = q + self.first.weight[:8]"),
    "frequencies that are learned": (
        "position.kind",
        "torch.arange(0, self.size, 2, device=x.device) / self.size),",
        "self.norm.weight[:4] / self.size),",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_not_stated_as_something_else(change):
    key, old, new = CHANGES[change]
    assert "opaque" in [status for name, status, _ in _facts([(old, new)]) if name == key]


def test_a_factor_before_an_activation_is_none_of_the_scores():
    (plain,) = {value for key, _, value in _facts([]) if key == "attention.scale"}
    found = _facts([("# heads", "q = torch.tanh(0.5 * q)")])
    assert {value for key, _, value in found if key == "attention.scale"} == {plain}
    assert ("unexplained", "opaque", None) in found


def test_a_gate_of_the_layers_input_is_stated_with_its_bias():
    layer = "        self.down = nn.Linear(64, config.width, bias=False)\n"
    changes = [
        (layer, layer + "        self.gating = nn.Linear(config.width, config.width)\n"),
        ("# attended", "y = y * torch.sigmoid(self.gating(x))"),
    ]
    found = _facts(changes)
    assert ("attention.gate", "proved", "sigmoid") in found
    assert ("attention.bias", "proved", ["gate"]) in found


@pytest.mark.parametrize(("order", "packing"), [("q, k, v", "qkv_concatenated"), ("v, q, k", "interleaved")])
def test_the_order_in_a_fused_weight_counts(order, packing):
    found = _facts(
        [
            ("        self.down =", "        self.all = nn.Linear(config.width, 64, bias=False)\n        self.down ="),
            ("        q = self.q(x).view(b, t, -1, self.size).transpose(1, 2)\n", ""),
            (
                "        k, v = (each(x).view(b, t, -1, self.size).transpose(1, 2) for each in (self.k, self.v))\n",
                f"        widths = dict(q=32, k=16, v=16)\n"
                f"        {order} = self.all(x).split([widths[name] for name in {order.replace(' ', '').split(',')}], -1)\n"
                "        q, k, v = (each.view(b, t, -1, self.size).transpose(1, 2) for each in (q, k, v))\n",
            ),
        ]
    )
    assert {value for key, _, value in found if key == "attention.packing"} == {packing}
