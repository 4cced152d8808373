"""``pytest --kunport-adapter PATH``: the checks of a validation as tests, among those that a project has.

Loaded by every pytest in the same environment, so nothing is imported before it is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kunport", "adapters of models, proved in vLLM beside the real model")
    group.addoption(
        "--kunport-adapter",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="an adapter's folder to validate; may be given several times",
    )
    group.addoption(
        "--kunport-checkpoint",
        type=Path,
        metavar="DIR",
        help="weights to validate with (default: tiny random ones, where kunport knows the architecture)",
    )
    group.addoption(
        "--kunport-dtype",
        default="float32",
        choices=("float32", "bfloat16", "float16"),
        help="what the engine computes in (float32)",
    )
    group.addoption(
        "--kunport-trust-remote-code",
        action="store_true",
        help="let Transformers and vLLM run the code in the checkpoint's folder",
    )


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    if folders := session.config.getoption("--kunport-adapter"):
        from kunport.validation.as_tests import adapter_tests

        items.extend(test for folder in folders for test in adapter_tests(session, folder))
