"""For code hosts: SARIF 2.1.0 (OASIS standard), a result for each remark, so that the host annotates the lines.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kunport_codegen.graph import Location

from kunport.report.formats.answer import UNKNOWN, WEIGHTS, Answer, Remark, remarks
from kunport.text import visible
from kunport.version import VERSION

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LIBRARY = "LIBRARY"  # base of files that belong to the installed Transformers, not to the user
_ROOT = "SRCROOT"
_ABOUT = {
    UNKNOWN: "An operation that the analysis does not understand",
    WEIGHTS: "A tensor of the checkpoint or of the model that has no counterpart",
}


def render(answer: Answer) -> str:
    """The answer as a SARIF log with one run."""
    found = list(remarks(answer))
    rules = list(dict.fromkeys(remark.rule for remark in found))
    places = _Places(answer.folder)
    run = {
        "tool": {
            "driver": {
                "name": "kunport",
                "semanticVersion": VERSION,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            _ROOT: {"description": {"text": "The folder that the command ran in."}},
            _LIBRARY: {"description": {"text": "The folder of installed packages that holds transformers."}},
        },
        "artifacts": [
            {"location": places.of(file), "hashes": {"sha-256": digest}}
            for file, digest in answer.description.sources.items()
        ],
        "results": [_result(remark, rules.index(remark.rule), places) for remark in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: str) -> dict[str, Any]:
    about = _ABOUT.get(rule, f"What the model does about {rule} and a Llama does not")
    return {"id": _identifier(rule), "shortDescription": {"text": f"{about}."}}


def _identifier(rule: str) -> str:
    return rule.lower().replace(" ", "-")


def _result(remark: Remark, index: int, places: _Places) -> dict[str, Any]:
    text = visible(remark.text)
    result: dict[str, Any] = {
        "ruleId": _identifier(remark.rule),
        "ruleIndex": index,
        "level": remark.level,
        "message": {"text": text.replace("[", "\\[").replace("]", "\\]")},  # brackets make links of a message
        "partialFingerprints": {"remark/v1": hashlib.sha256(f"{remark.rule}\0{text}".encode()).hexdigest()},
    }
    if remark.where is not None:
        result["locations"] = [places.line(remark.where)]
    return result


class _Places:
    """Names of source files as URIs: relative to where the command runs for the user's own, else to the library."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def of(self, file: str) -> dict[str, str]:
        if self._folder is not None and not Path(file).is_absolute() and (self._folder / file).is_file():
            return {"uri": _uri(os.path.relpath(self._folder / file)), "uriBaseId": _ROOT}
        return {"uri": _uri(file), "uriBaseId": _LIBRARY}

    def line(self, where: Location) -> dict[str, Any]:
        return {
            "physicalLocation": {
                "artifactLocation": self.of(where.file),
                "region": {"startLine": max(where.line, 1)},
            }
        }


def _uri(path: str) -> str:
    return quote(path.replace(os.sep, "/"), errors="surrogatepass")
