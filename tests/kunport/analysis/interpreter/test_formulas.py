"""Formulas of einsum that are one product of matrices become one, and give what torch gives."""

import pytest
from both_ways import model, same_both_ways

PRODUCTS = {
    "bihd,bjhd->bhij": "x4, y4",
    "bhij,bjhd->bihd": "torch.einsum('bihd,bjhd->bhij', x4, y4), y4",
    "b i h d, b j h d -> b i j h": "x4, y4",
    "btd,bsd->bts": "x, y",
    "btd,bds->bts": "x, y.mT",
    "btd,bsd->bst": "x, y",
    "btd,bte->bde": "x, y",
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
