"""The generated page, and what importing costs."""

import subprocess
import sys
from pathlib import Path

from kunport_runtime.operators.__main__ import REFERENCE, main
from kunport_runtime.operators.page import page
from kunport_runtime.operators.registry import registry

ROOT = Path(__file__).parents[3]
CONTRACTS = [each for each in registry.contracts() if each.family != "own"]


def test_the_page_is_the_one_in_the_repository():
    assert (ROOT / REFERENCE).read_text() == page(CONTRACTS), "stale: run python -m kunport_runtime.operators"


def test_every_operator_and_argument_is_on_the_page():
    text = page(CONTRACTS)
    for contract in CONTRACTS:
        section = text.partition(f"### {contract.name}\n")[2].partition("\n### ")[0]
        assert contract.doc in section
        assert all(f"| `{argument.name}` | " in section for argument in contract.arguments)
        assert all(str(limit) in section for limit in contract.limits)
        rows = [line for line in section.splitlines() if line.startswith("|")]
        assert {line.replace("\\|", "").count("|") for line in rows} <= {5, 6}, "a cell would break its table"


def test_the_command_writes_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main()
    assert (tmp_path / REFERENCE).read_text() == page(CONTRACTS)


def test_importing_the_package_imports_nothing_else():
    code = (
        "import sys, kunport_runtime.operators, kunport_runtime.providers;"
        "print(sorted(set(sys.modules) & {'torch', 'triton', 'vllm', 'numpy', 'kunport', 'libcst'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
