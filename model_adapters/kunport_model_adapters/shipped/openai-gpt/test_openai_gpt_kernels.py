# SPDX-License-Identifier: Apache-2.0
"""The kernels of OpenAIGPTLMHeadModel give what their references give: interpreted where there is no device."""

from pathlib import Path

import pytest
from kunport_model_adapters.row_kernels import check, names

KERNELS = Path(__file__).with_name("kernels.py")


@pytest.mark.parametrize("name", names(KERNELS))
def test_a_kernel_gives_what_its_reference_gives(name: str) -> None:
    assert check(KERNELS, name) == []
