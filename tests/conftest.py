"""Settings of all tests."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A busy machine is slow, not wrong; and what continuous integration draws must not differ from one run to the next.
settings.register_profile("kunport", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("kunport")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the engine share one import of it."""
    for item in items:
        if item.get_closest_marker("engine") and "model_adapters" not in item.path.parts:
            item.fixturenames.insert(0, "warm_processes")  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def warm_processes() -> Iterator[None]:
    from kunport.validation.processes.warm import warm

    with warm():
        yield


@pytest.fixture(scope="session")
def untraced() -> dict[str, str]:
    """The environment of processes whose lines other tests cover: measuring coverage makes an engine half as fast."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
