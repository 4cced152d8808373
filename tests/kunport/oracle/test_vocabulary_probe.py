"""A toy language model whose embedding and head are known, found out by the probes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from kunport.oracle.labels import Scope
from kunport.oracle.norm_form import find_form
from kunport.oracle.structure import find_layers
from kunport.oracle.vocabulary import Vocabulary
from kunport.oracle.watch import watch
from test_layer_probes import WIDTH, Block, standard
from torch import Tensor, nn
from toy_attention import LENGTH


class LanguageModel(nn.Module):
    """Embedding, one layer, norm and head."""

    def __init__(
        self, scale: float = 1.0, positions: str = "", norm: bool = False, tied: bool = False, bias: bool = False,
        head_scale: float = 1.0, softcap: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.scale, self.head_scale, self.softcap = scale, head_scale, softcap
        self.embedding = nn.Embedding(64, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH) if positions == "learned" else None
        self.register_buffer("table", torch.randn(LENGTH, WIDTH) if positions == "sinusoidal" else None)
        self.first = nn.LayerNorm(WIDTH) if norm else None
        self.layers = nn.ModuleList([Block(standard)])
        self.last = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 64, bias=bias)
        if tied:
            self.head.weight = self.embedding.weight
        for each in (self.first, self.last):
            if each is not None:
                nn.init.uniform_(each.weight, 0.5, 1.5)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> SimpleNamespace:
        x = self.scale * self.embedding(input_ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(LENGTH))
        if self.table is not None:
            x = x + self.table
        x = x if self.first is None else self.first(x)
        logits = self.head_scale * self.head(self.last(self.layers[0](x)))
        return SimpleNamespace(
            logits=logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)
        )


def found(model: LanguageModel) -> Scope:
    tokens = torch.randint(0, 64, (1, LENGTH), generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), watch(model, LENGTH) as record:
        model(input_ids=tokens)
    norms = {each: find_form(each, torch.Size([WIDTH])) for each in (model.first, model.last) if each is not None}
    vocabulary = Vocabulary(model, tokens, record, {module: form for module, form in norms.items() if form is not None})
    scope = Scope()
    vocabulary.label_embedding(find_layers(model, record)[0], scope)
    vocabulary.label_head(scope)
    return scope


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({}, {"embedding.scale": 1.0, "embedding.norm": False, "embedding.positions": None, "head.tied": False}),
        ({}, {"head.bias": False, "head.scale": 1.0, "head.softcap": None}),
        ({"scale": 8.0}, {"embedding.scale": 8.0}),
        ({"positions": "learned", "scale": 3.0}, {"embedding.positions": "learned", "embedding.scale": 3.0}),
        ({"positions": "sinusoidal"}, {"embedding.positions": "sinusoidal", "embedding.scale": 1.0}),
        ({"norm": True, "positions": "learned"}, {"embedding.norm": True, "embedding.positions": "learned"}),
        ({"tied": True, "bias": True}, {"head.tied": True, "head.bias": True}),
        ({"head_scale": 0.125, "softcap": 30.0}, {"head.scale": 0.125, "head.softcap": 30.0}),
    ],
)  # fmt: skip
def test_vocabulary(fields: dict[str, object], labels: dict[str, object]) -> None:
    torch.manual_seed(0)
    scope = found(LanguageModel(**fields))
    for key, value in labels.items():
        expected = pytest.approx(value, rel=1e-3) if isinstance(value, float) else value
        assert scope.values[key] == expected, scope.absent
