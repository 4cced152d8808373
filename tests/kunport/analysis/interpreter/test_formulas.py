"""Formulas of einsum that are one product of matrices become one, and give what torch gives."""

import pytest
import torch
from both_ways import build, model, read, same_both_ways, state
from kunport.validation.executor import execute

PRODUCTS = {
    "bihd,bjhd->bhij": "x4, y4",
    "bhij,bjhd->bihd": "torch.einsum('bihd,bjhd->bhij', x4, y4), y4",
    "b i h d, b j h d -> b i j h": "x4, y4",
    "btd,bsd->bts": "x, y",
    "btd,bds->bts": "x, y.mT",
    "btd,bsd->bst": "x, y",
    "btd,bte->bde": "x, y",
}
SHARED = {
    "bihd,bjd->bhij": "x4, y4[:, :, 0]",  # all heads share one key
    "b h i d, b j d -> b i h j": "x4.transpose(1, 2), y4[:, :, 1]",
    "bihd,bijd->bhij": "x4, x4[:, :1].expand(-1, x4.shape[1], -1, -1)",
    "b h g i d, b h j d -> b h g i j": "grouped, y4.transpose(1, 2)",
    "b g h i d, b h j d -> b g h i j": "grouped.transpose(1, 2), y4.transpose(1, 2)",  # groups before heads
    "b i h g d, b j h d -> b h g i j": "grouped.permute(0, 3, 1, 2, 4), y4",
}
OTHERS = {
    "td,sd->ts": "x[0], y[0]",
    "btd,ed->bte": "x, y[0]",  # the right one has no batch
    "btd,btd->bt": "x, y",
    "btd,btd->btd": "x, y",
    "bthd,bshe->bts": "x4, y4",
    "ij,jk->k": "x[0], y[0].mT",
    "btt->bt": "x @ y.mT",
    "...td,...sd->...ts": "x, y",
    "btd,bsd": "x, y",
}
SETUP = "y = x.flip(-1)\nx4, y4 = x.unflatten(-1, (2, 4)), y.unflatten(-1, (2, 4))\n"
SETUP += "grouped = torch.stack((x4, x4.cos(), y4), 3).permute(0, 2, 3, 1, 4)\n"


def operators(folder, formula, operands):
    source = model(SETUP + f"x = torch.einsum('{formula}', {operands})")
    return [node.op for node in same_both_ways(folder, source).nodes]


@pytest.mark.parametrize(("formula", "operands"), PRODUCTS.items())
def test_a_product_of_matrices_is_written_as_one(formula, operands, tmp_path):
    found = operators(tmp_path, formula, operands)
    assert "matmul" in found
    assert "einsum" not in found


@pytest.mark.parametrize(("formula", "operands"), OTHERS.items())
def test_other_formulas_stay(formula, operands, tmp_path):
    assert "einsum" in operators(tmp_path, formula, operands)


@pytest.mark.parametrize(("formula", "operands"), SHARED.items())
def test_heads_that_share_a_key_are_one_product_up_to_the_order_of_sums(formula, operands, tmp_path):
    source = model(SETUP + f"x = torch.einsum('{formula}', {operands})")
    graph, made = read(tmp_path, source), build(source)
    assert "einsum" not in [node.op for node in graph.nodes]
    for sizes in ((2, 11), (1, 5)):
        ids = torch.randint(16, sizes)
        assert torch.allclose(execute(graph, state(made), ids), made(ids), rtol=1e-5, atol=1e-5)
