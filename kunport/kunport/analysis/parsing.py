"""Source text to Python's own syntax tree, in the one way that hostile text cannot disturb."""

from __future__ import annotations

import ast
import warnings


class UnparsableError(ValueError):
    """Text that Python's parser does not take.

    Attributes:
        reason: why.
        line: where, None where the parser does not say.
        deep: whether it is valid perhaps, and nests too deeply.
    """

    def __init__(self, reason: str, line: int | None = None, *, deep: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.deep = deep


def parse(text: str) -> ast.Module:
    """The tree of a text; what the parser warns of is not printed.

    Raises:
        UnparsableError: it is not valid, or nests too deeply.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (RecursionError, MemoryError):  # which is how Python's parser ends on what nests too deeply
        raise UnparsableError("it nests too deeply", deep=True) from None
    except SyntaxError as error:
        raise UnparsableError(error.msg, error.lineno) from None
    except ValueError as error:  # NUL bytes, and text that is not Unicode
        raise UnparsableError(str(error)) from None
