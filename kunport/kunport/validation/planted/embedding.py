"""From tokens to the first layer."""

from __future__ import annotations

import ast

from kunport.validation.planted.kinds import kind
from kunport.validation.planted.source import Place, Source, is_self, method, replace_once


@kind
def embedding_scale_missing(source: Source) -> Place:
    """The embeddings are not scaled."""
    model = source.model()

    def without(node: ast.AST) -> ast.expr | None:
        scaled = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        is_scale = scaled and is_self(node.right, "embed_scale", "embedding_multiplier", "embedding_scale")  # type: ignore[attr-defined]
        return node.left if is_scale else None  # type: ignore[attr-defined]

    replace_once(model, without, "it scales no embeddings")
    return Place(model.name)


@kind
def embedding_norm_missing(source: Source) -> Place:
    """The embeddings are not normed."""
    model = source.model()

    def without(node: ast.AST) -> ast.expr | None:
        called = isinstance(node, ast.Call) and is_self(node.func, "word_embeddings_layernorm", "embedding_layernorm")
        return node.args[0] if called else None  # type: ignore[attr-defined]

    replace_once(method(model, "forward"), without, "it norms no embeddings")
    return Place(model.name)


@kind
def embeddings_shifted(source: Source) -> Place:
    """A token reads its neighbour's row of the table."""
    table = source.one("VocabParallelEmbedding")
    method(source.root, "load_weights").body[0:0] = ast.parse(
        f"weights = ((n, w.roll(1, 0) if n.endswith('{table.attribute}.weight') else w) for n, w in weights)"
    ).body
    return table.place
