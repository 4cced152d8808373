#!/bin/sh
# The whole test command. With --fast: everything but the tests that start the engine, and no coverage floor.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python}
BIN=$(dirname "$PYTHON")
export VLLM_LOGGING_LEVEL=ERROR TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1

"$BIN/ruff" format --check .
"$BIN/ruff" check .
"$BIN/mypy"
"$BIN/lint-imports"
# Pytest takes two test modules of one name for the same module, and only when it gets to the second.
twice=$(find tests -name 'test_*.py' | sed 's|.*/||' | sort | uniq -d)
[ -z "$twice" ] || { echo "Name test modules apart: $twice" >&2; exit 1; }
if [ "${1:-}" = --fast ]; then
    exec "$PYTHON" -m pytest -m "not engine" -n 2 --dist worksteal
fi
rm -f .coverage .coverage.*
COVERAGE_PROCESS_START="$PWD/pyproject.toml" "$PYTHON" -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=25 --durations-min=5 --cov --cov-report=
"$PYTHON" -m coverage combine --quiet --append || true
"$PYTHON" -m coverage report
