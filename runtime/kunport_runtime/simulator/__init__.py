"""The vendor's operators, computed in torch on the CPU, so that the vendor's path runs where no Kunlun is.

They have the names and the arguments that public call sites use, and hold every call against the rules in `rules`: a
call that would fail, or be wrong, on the device raises here and names the rule. It is a simulator of the calls, not
of the device: no figure of speed from it means anything. ``KUNPORT_SIMULATOR=1`` asks for it (or the name of an
earlier generation, such as ``xtorch_ops``), together with ``KUNPORT_DEVICE=kunlun``.
"""

from __future__ import annotations

import os

VARIABLE = "KUNPORT_SIMULATOR"
_NO = ("", "0", "false", "no", "off")


def requested() -> str:
    """The generation to simulate, ``1`` for the newest; "" where none was asked for."""
    value = os.environ.get(VARIABLE, "").strip().lower()
    return "" if value in _NO else value
