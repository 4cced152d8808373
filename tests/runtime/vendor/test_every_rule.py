"""Every rule of the simulator is broken by one test, which breaks that rule and no other.

Tests of rules are in ``test_*_rules.py`` and named after their rule. A rule that a call shows must raise
`VendorRuleError`, and the same call without the fault must not; one that only numbers show must give wrong ones.
"""

from __future__ import annotations

import re
from pathlib import Path

from kunport_runtime.simulator.rules import RULES

TEST = re.compile(r"^def test_(\w+)\(", re.MULTILINE)


def test_every_rule_has_its_test():
    files = sorted(Path(__file__).parent.glob("test_*_rules.py"))
    tests = [name for file in files for name in TEST.findall(file.read_text(encoding="utf-8"))]
    assert sorted(tests) == sorted(rule.name for rule in RULES)
    assert all(rule.sentence.endswith(".") and rule.source for rule in RULES)
