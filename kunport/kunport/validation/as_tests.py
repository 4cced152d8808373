"""A validation as tests of pytest: one for each check, all of one run of the engine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from kunport.errors import KunportError
from kunport.validation.reasons import CHECKS
from kunport.validation.report import Report


class ChecksFailedError(Exception):
    """What a check has against an adapter."""


class Validation:
    """One adapter, validated when its first check is asked for.

    Args:
        folder: the adapter's.
        checkpoint: weights; None for tiny random ones.
        options: of `kunport.validation.validate`.
    """

    def __init__(self, folder: Path, checkpoint: Path | None, **options: Any) -> None:
        self.folder = folder
        self._checkpoint, self._options = checkpoint, options

    @cached_property
    def outcome(self) -> Report | KunportError:
        """The report, or why there is none: each check says so then, and the engine is not started again for it."""
        import kunport
        from kunport.tiny_models.for_adapter import tiny_checkpoint

        try:
            with tempfile.TemporaryDirectory(prefix="kunport-") as name:
                checkpoint = self._checkpoint or tiny_checkpoint(self.folder, Path(name) / "checkpoint")
                analysis = kunport.analyze(checkpoint)
                return kunport.validate(self.folder, checkpoint, analysis=analysis, **self._options)
        except KunportError as error:
            return error


class CheckItem(pytest.Item):
    """One check of one adapter."""

    def __init__(self, *, validation: Validation, check: str, **rest: Any) -> None:
        super().__init__(**rest)
        self._validation, self._check = validation, check

    def runtest(self) -> None:
        outcome = self._validation.outcome
        if isinstance(outcome, KunportError):
            raise outcome
        if found := list(CHECKS[self._check](outcome)):
            raise ChecksFailedError("\n".join(found))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The reasons alone: where in kunport they were raised says nothing of the adapter."""
        if isinstance(excinfo.value, ChecksFailedError | KunportError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self._validation.folder, None, self.name


def adapter_tests(session: pytest.Session, folder: Path) -> Iterator[pytest.Item]:
    """The checks of the adapter in a folder, by the options of the command line."""
    option = session.config.getoption
    validation = Validation(
        folder.absolute(),
        option("--kunport-checkpoint"),
        dtype=option("--kunport-dtype"),
        trust_remote_code=option("--kunport-trust-remote-code"),
    )
    for check in CHECKS:
        item = CheckItem.from_parent(session, name=f"{folder.name}: {check}", validation=validation, check=check)
        item.add_marker(pytest.mark.xdist_group(f"kunport {folder}"))  # one worker, one engine
        yield item
