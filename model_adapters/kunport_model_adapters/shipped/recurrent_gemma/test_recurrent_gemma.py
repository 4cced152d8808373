# SPDX-License-Identifier: Apache-2.0
"""RecurrentGemmaForCausalLM in vLLM computes what it computes in Transformers."""

import os
from pathlib import Path

import kunport


def test_parity(tmp_path: Path) -> None:
    """In the real engine, on the checkpoint that KUNPORT_CHECKPOINT names, else on a small random one."""
    checkpoint = os.environ.get("KUNPORT_CHECKPOINT") or kunport.tiny("recurrent_gemma", tmp_path / "checkpoint")
    report = kunport.validate(Path(__file__).parent, checkpoint)
    assert report.passed, report.reasons
