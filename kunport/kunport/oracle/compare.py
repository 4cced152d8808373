"""The only place where oracle and analysis meet: the facts that the analysis states of a labelled case."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from kunport.analysis import analyze
from kunport.errors import KunportError
from kunport.oracle.labels import Labels
from kunport.oracle.score import Pair, judge
from kunport.variants import read_facts


def compare(labels: Labels) -> list[Pair]:
    """Every labelled fact of a case beside what the analysis states of it."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(labels.config))
        try:
            facts = read_facts(analyze(folder).graph).as_dict()
        except KunportError as error:
            return judge(labels, {"model": {}, "layers": []}, opaque=str(error))
    return judge(labels, facts)


__all__ = ["compare"]
