"""Whether queries and keys of an attention are rotated alike: then the product of both depends on their distance."""

from __future__ import annotations

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Rope

from kunport.variants.paths import Site


def differing(site: Site) -> str:
    """In what the rotations of queries and keys differ; "" where they are alike or keys are another layer's."""
    query, key = site.query.ropes, site.key.ropes
    if site.key.layers or not (query or key) or (query and shared(site)):
        return ""
    if not key:
        return f"queries are rotated ({query[0].where}) and keys are not"
    if not query:
        return f"keys are rotated ({key[0].where}) and queries are not"
    how = "by different angles" if _form(query[0]) == _form(key[0]) else "in different ways"
    return f"queries and keys are rotated {how} ({query[0].where}, {key[0].where})"


def shared(site: Site) -> list[Rope]:
    """The rotations of a query and a key that are alike, where every one of the query's has one of the key's."""
    query, key = ([(_angles(rope), _form(rope)) for rope in way.ropes] for way in (site.query, site.key))
    if site.key.layers:
        return site.query.ropes
    if not set(query) <= set(key):
        return []
    both = zip((*query, *key), (*site.query.ropes, *site.key.ropes), strict=True)
    return [rope for form, rope in both if form in query]


def backwards(site: Site) -> list[Rope]:
    """The rotations by the negative angle."""
    return [rope for rope in (*site.query.ropes, *site.key.ropes) if rope.backwards]


def _angles(rope: Rope) -> tuple[object, ...]:
    table = rope.table
    return table.rope_type, unwrap(table.theta), unwrap(table.rotary_dim), table.scaling, table.own


def _form(rope: Rope) -> tuple[object, ...]:
    return rope.style, rope.regrouped, rope.backwards
