"""The command line: one file a verb. What a verb needs is imported when it runs, so that starting stays quick."""

from kunport.cli.command import main

__all__ = ["main"]
