"""From the last norm to the logits."""

from __future__ import annotations

import ast

from kunport.validation.planted.kinds import kind
from kunport.validation.planted.source import NotApplicableError, Place, Source, method


@kind
def tied_head_missing(source: Source) -> Place:
    """The head keeps a table of its own, where it should share the embeddings'."""
    return _tie(source, "False", wanted=True)


@kind
def head_tied_by_mistake(source: Source) -> Place:
    """The head shares the embeddings' table, where it has one of its own."""
    return _tie(source, "True", wanted=False)


@kind
def logit_scale_missing(source: Source) -> Place:
    """The logits are not scaled."""
    return _dropped(source, "scale")


@kind
def logit_softcap_missing(source: Source) -> Place:
    """The logits are not capped."""
    return _dropped(source, "soft_cap")


def _tie(source: Source, condition: str, *, wanted: bool) -> Place:
    if bool(source.config.get("tie_word_embeddings")) is not wanted:
        raise NotApplicableError(
            "its head has a table of its own" if wanted else "its head shares the embeddings' table"
        )
    for node in ast.walk(method(source.root, "__init__")):
        if isinstance(node, ast.If) and "tie_word_embeddings" in ast.unparse(node.test):
            node.test = ast.parse(condition, mode="eval").body
            return source.one("ParallelLMHead").place
    raise NotApplicableError("whether the head is tied is not asked")


def _dropped(source: Source, name: str) -> Place:
    return source.one("LogitsProcessor", having=name).drop(name)
