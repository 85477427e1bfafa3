# SPDX-License-Identifier: Apache-2.0
"""Many coroutines, one scheduler: text streamed to each, without blocking the event loop.

    python asyncio_server.py [FOLDER_OF_A_MODEL]

A thread drives the scheduler; other Python code runs during its steps. Coroutines get their pieces
through queues of the event loop. A coroutine that is cancelled cancels its request.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator

import colibri


class AsyncEngine:
    """A scheduler and the thread that steps it."""

    def __init__(self, model: colibri.Model) -> None:
        assert model.tokenizer is not None  # a model may come without one
        self._tokenizer = model.tokenizer
        self._scheduler = model.scheduler()
        self._loop = asyncio.get_running_loop()
        self._queues: dict[int, asyncio.Queue[colibri.Event]] = {}
        self._is_ending = False
        self._thread = threading.Thread(target=self._drive)
        self._thread.start()

    async def stream(self, question: str, max_tokens: int = 60) -> AsyncIterator[str]:
        """Pieces of the answer, as soon as they are there."""
        messages = [colibri.Message(colibri.Role.USER, question)]
        prompt = self._tokenizer.encode_chat(messages)
        request = self._scheduler.submit(prompt, max_tokens=max_tokens)
        # The event loop is this thread's: no event can be delivered before the queue is there.
        queue = self._queues[request.id] = asyncio.Queue()
        try:
            while True:
                event = await queue.get()
                if event.error is not None:
                    raise event.error
                if event.text:
                    yield event.text
                if event.kind is colibri.EventKind.FINISHED:
                    return
        finally:
            del self._queues[request.id]
            with contextlib.suppress(colibri.NotFoundError):  # it has ended
                self._scheduler.cancel(request)

    async def close(self) -> None:
        """Stops the thread, then frees the scheduler."""
        self._is_ending = True
        self._scheduler.wake()
        await asyncio.to_thread(self._thread.join)
        self._scheduler.close()

    def _drive(self) -> None:
        while not self._is_ending:
            self._scheduler.step(wait=True)
            events = self._scheduler.events()
            if events:
                self._loop.call_soon_threadsafe(self._deliver, events)

    def _deliver(self, events: list[colibri.Event]) -> None:
        for event in events:
            if event.request in self._queues:
                self._queues[event.request].put_nowait(event)


async def answer(engine: AsyncEngine, question: str) -> str:
    return question + " " + "".join([piece async for piece in engine.stream(question)])


async def impatient(engine: AsyncEngine, question: str) -> str:
    async def first_piece() -> str:
        async for piece in engine.stream(question):
            return piece
        return ""

    return f"{question} [left after {await first_piece()!r}]"


async def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else None
    with colibri.Model(path, n_slots=4) as model:
        engine = AsyncEngine(model)
        try:
            questions = ["Who are you?", "What does the cow say?", "What is 8 plus 8?"]
            answers = await asyncio.gather(
                *(answer(engine, question) for question in questions),
                impatient(engine, "Tell me a story about a fox."),
            )
            print("\n".join(answers))
        finally:
            await engine.close()


if __name__ == "__main__":
    asyncio.run(main())
