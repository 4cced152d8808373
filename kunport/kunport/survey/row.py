"""What is said about one of many models."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kunport.errors import KunportError
from kunport.uncollected import uncollected

if TYPE_CHECKING:
    from kunport.description import Description

OTHER, FAILED = "not analysed", "failed"  # beside what a description says of a model that was read


@dataclass(frozen=True, slots=True)
class Row:
    """One model.

    Attributes:
        model: as it was named.
        verdict: ``understood``, ``partly understood`` (all operations, but not all facts), ``not understood``,
            ``not analysed`` (no text decoder, or its source is in error), or ``failed`` (a bug of kunport, or no end in
            the time given).
        reason: the first thing that is not understood or not known, or why there was no analysis; "" where all is well.
        architecture, layers, parameters: of the model; "" and 0 where it was not analysed.
        differences: number of things that a Llama does not do.
        unknowns: number of operations that are not understood.
        opaque: number of facts that are not known.
        sources: every file that was read for it, by its path, with its SHA-256.
    """

    model: str
    verdict: str
    reason: str = ""
    architecture: str = ""
    layers: int = 0
    parameters: int = 0
    differences: int = 0
    unknowns: int = 0
    opaque: int = 0
    sources: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without the sources."""
        plain = asdict(self)
        del plain["sources"]
        return plain


def read_row(model: str) -> Row:
    """Analyse one model. Whatever is wrong with it is its row's to say."""
    import kunport
    from kunport.description import describe

    try:
        with uncollected():
            analysis = kunport.analyze(model)
            description = describe(analysis.graph, judged=False)
    except KunportError as error:
        return Row(model, OTHER, error.problem, sources=_own(model))
    except RecursionError:
        return Row(model, OTHER, "Its expressions nest too deeply.", sources=_own(model))
    except Exception as error:
        return Row(model, FAILED, f"This is a bug of kunport ({type(error).__name__}: {error}).", sources=_own(model))
    return Row(
        model=model,
        verdict=description.verdict,
        reason=_reason(description),
        architecture=description.architecture,
        layers=description.layers,
        parameters=description.parameters,
        differences=sum(not line.usual for lines in description.groups.values() for line in lines),
        unknowns=len(description.unknowns),
        opaque=len(description.opaque),
        sources=_own(model) | _files(model, analysis.sources),
    )


def _reason(description: Description) -> str:
    """The first thing that is not understood, or else not known."""
    if description.unknowns:
        return str(description.unknowns[0])
    return next((f"{key} is not known: {fact.reason}" for key, fact in description.opaque.items()), "")


def _own(model: str) -> dict[str, str]:
    from kunport.survey.digests import digest

    path = Path(model)
    own = [path] if path.is_file() else sorted(path.glob("*.py")) if path.is_dir() else []
    own += [config for config in [(path if path.is_dir() else path.parent) / "config.json"] if config.is_file()]
    return {str(file.resolve()): digest(file) for file in own}


def _files(model: str, sources: dict[str, str]) -> dict[str, str]:
    """Sources by where they are: below the installed library, or the user's own."""
    from kunport.analysis.library.installed import installation

    folder = Path(model).parent if Path(model).is_file() else Path(model)
    found = {}
    for name, value in sources.items():
        place = next((each / name for each in (installation().root, folder) if (each / name).is_file()), None)
        if place is not None:
            found[str(place.resolve())] = value
    return found
