"""Settings of all tests: their order, the processes that they share, and where coverage is measured."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is slow, not wrong; and what continuous integration draws must not differ from one run to the next.
settings.register_profile("kunport", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("kunport")

_SDK = Path(__file__).with_name("kunport")
_COVERAGE = "COVERAGE_PROCESS"  # how the variables begin by which coverage is measured in processes that tests start


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, or the last one keeps one worker busy alone; proofs of the SDK share their imports."""
    last = 2
    rank: dict[Path, int] = {}
    for item in items:
        mine = 0 if item.get_closest_marker("engine") else 1 if item.get_closest_marker("untraced") else last
        rank[item.path] = min(mine, rank.get(item.path, last))
        if item.get_closest_marker("engine") and _SDK in item.path.parents:
            item.fixturenames.insert(0, "warm_processes")  # type: ignore[attr-defined]
    items.sort(key=lambda item: rank[item.path])


@pytest.fixture(scope="session")
def warm_processes() -> Iterator[None]:
    from kunport.validation.processes.warm import warm

    with _not_measured():
        context = warm()
        context.__enter__()
    yield
    context.__exit__(None, None, None)


@pytest.fixture(scope="session")
def untraced() -> dict[str, str]:
    """The environment of processes whose lines other tests cover: measuring coverage makes an engine half as fast."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_COVERAGE)}


@pytest.fixture(scope="module", autouse=True)
def _measured(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("untraced"):
        with _not_measured():
            yield
    else:
        yield


@contextmanager
def _not_measured() -> Iterator[None]:
    """No coverage inside, neither here nor in processes that start inside."""
    import coverage

    measuring = coverage.Coverage.current()
    variables = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(_COVERAGE)}
    if measuring is not None:
        measuring.stop()
    try:
        yield
    finally:
        os.environ.update(variables)
        if measuring is not None:
            measuring.start()
