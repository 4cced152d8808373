"""Whether all of what an attention multiplies is rotated as the rotation of its first query is."""

from __future__ import annotations

import numpy as np
from kunport_codegen.recognition.index import sizes

from kunport.variants import rotations
from kunport.variants.claims.places import passed
from kunport.variants.paths import Site, Way


def differing(site: Site) -> str:
    """In what the rotations of an attention's queries and keys differ, or those of their parts; "" where in nothing."""
    if "turned" not in site.memo:
        site.memo["turned"] = rotations.differing(site) or _parts(site)
    found = site.memo["turned"]
    return str(found)


def _parts(site: Site) -> str:
    """In what parts of the queries, or of the keys, are rotated otherwise than others."""
    fact, shares = site.fact, []
    for name, way, tensor in (("queries", site.query, fact.query), ("keys", site.key, fact.key)):
        if not way.ropes or way.layers or not way.projections:
            continue
        counts = passed(site.layer.model, tensor, [each.node.id for each in way.projections], way.same, _outputs(way))
        if counts is None or counts.ndim != 4 or counts.max() > len(way.ropes):  # numbers are added on the way
            continue
        if tensor == fact.key and fact.key_transposed:
            counts = np.swapaxes(counts, 2, 3)
        if not np.all(counts == counts[0, 0, 0]):
            return f"not all heads and tokens of {name} are rotated alike ({way.ropes[0].where})"
        share = counts[0, 0, 0]
        wide = sizes(site.layer.model.index.nodes[way.ropes[0].output])
        if len(way.ropes) == 1 and wide is not None and np.count_nonzero(share) != wide[-1]:
            return f"only a part of what is rotated goes into {name} ({way.ropes[0].where})"
        shares.append(share)
    if len(shares) == 2 and not np.array_equal(*shares):
        return f"other elements of queries than of keys are rotated ({site.query.ropes[0].where})"
    return ""


def _outputs(way: Way) -> set[int]:
    return {rope.output for rope in way.ropes}
