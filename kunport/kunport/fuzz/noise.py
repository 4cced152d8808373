"""Mutations of bytes: what comes out is seldom valid."""

from __future__ import annotations

import random

_PIECES = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\x1b[31m\x1b]0;x\x07",
    b"\r",
    b"\x0c",
    "\u202e\u2066".encode(),
    b"# -*- coding: latin-1 -*-\n",
    b"#" * 5000,
    b"(" * 3000,
    b"[" * 150,
    b'"""',
    b"'''",
    b"\\\n",
    b"\t",
    b"    " * 200,
    b"class ",
    b"\ndef ",
    b"@",
    b"-" * 5000 + b"1",
    b"9" * 6000,
    b"{" * 1000,
    b"\n" * 20000,
)


def mutate(data: bytes, draw: random.Random) -> bytes:
    """The bytes with one to six mutations."""
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(data) + 1)
        kind = draw.randrange(6)
        if kind == 0:
            data = data[:at] + draw.choice(_PIECES) + data[at:]
        elif kind == 1:
            data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
        elif kind == 2:
            data = data[:at] + data[at + draw.randrange(200) :]
        elif kind == 3:
            data = data[:at]
        elif kind == 4:
            length = draw.randrange(2000)
            data = data[:at] + data[at : at + length] * draw.randint(1, 20) + data[at + length :]
        else:
            end = min(len(data), at + draw.randrange(100))
            data = data[:at] + data[at:end][::-1] + data[end:]
    return data
