"""Exchange data with a child process through its pipes, bounded in time and in bytes."""

from __future__ import annotations

import os
import select
import subprocess
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, PollSelector
from time import perf_counter
from typing import IO

CHUNK_B = 2**16


class AnswerTooLong(Exception):
    """The child wrote more bytes than the limit."""


def talk(process: subprocess.Popen[bytes], text: bytes, until_s: float, most_b: int) -> tuple[bytearray, bytearray]:
    """Write *text* to the standard input of *process* and read both its outputs to their ends.

    Raises TimeoutExpired at *until_s* of ``perf_counter``, and AnswerTooLong where an output has more than *most_b*
    bytes: ``Popen.communicate`` would read on while there is memory.
    """
    assert process.stdin
    assert process.stdout
    assert process.stderr
    outputs: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    left = memoryview(text)
    with PollSelector() as selector:
        for stream in outputs:
            selector.register(stream, EVENT_READ)
        selector.register(process.stdin, EVENT_WRITE)
        while selector.get_map():
            if perf_counter() >= until_s:
                raise subprocess.TimeoutExpired(process.args, 0.0)
            for key, _ in selector.select(until_s - perf_counter()):
                if key.fileobj is process.stdin:
                    left = _written(process.stdin, left)
                    if not left:
                        selector.unregister(process.stdin)
                    continue
                stream = next(stream for stream in outputs if stream is key.fileobj)
                chunk = os.read(stream.fileno(), CHUNK_B)
                if not chunk:
                    selector.unregister(stream)
                elif len(outputs[stream]) + len(chunk) > most_b:
                    raise AnswerTooLong
                outputs[stream] += chunk
    return outputs[process.stdout], outputs[process.stderr]


def _written(stdin: IO[bytes], text: memoryview) -> memoryview:
    """Write a chunk of *text* and return the rest; empty once the child stops reading."""
    with suppress(BrokenPipeError):
        text = text[os.write(stdin.fileno(), text[: select.PIPE_BUF]) :] if text else text
        if text:
            return text
    with suppress(BrokenPipeError):
        stdin.close()
    return memoryview(b"")
