"""One child process a case, forked from one that has imported everything, so that a crash is a row."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import TypeVar

Answer = TypeVar("Answer")


def each_apart(
    work: Callable[[str], Answer], names: Iterable[str], *, seconds: float
) -> Iterator[tuple[str, Answer | str]]:
    """Each name with what ``work`` gives for it in a process of its own, or why it gives nothing.

    ``seconds`` is how long one of them may take.
    """
    context = multiprocessing.get_context("fork")
    for name in names:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_answer, args=(work, name, theirs))
        child.start()
        theirs.close()
        yield name, _received(ours, child, seconds)
        child.join()


def _answer(work: Callable[[str], Answer], name: str, channel: Connection) -> None:
    gc.disable()  # the process is short, and what it makes grows without becoming garbage
    try:
        channel.send(work(name))
    except Exception as error:  # whatever it raises is the answer
        channel.send(f"{type(error).__name__}: {error}")


def _received(channel: Connection, child: multiprocessing.process.BaseProcess, seconds: float) -> Answer | str:
    try:
        if channel.poll(seconds):
            answer: Answer | str = channel.recv()
            return answer
        child.kill()
        return f"no answer in {seconds:.0f} s"
    except EOFError:
        child.join()
        return f"the process ended with status {child.exitcode}"
    finally:
        channel.close()
