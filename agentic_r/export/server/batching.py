"""Many small requests, one worker: what came in while a batch was at work is the next batch.

Owns who waits, for how long at most (a bound on texts, refused beyond), and that a failure reaches the request that
caused it and no other. No delay is added to fill a batch. What the work is belongs to the caller.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["Admission", "Batcher", "QueueFull"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class QueueFull(Exception):
    """More texts wait than the bound allows; the client may come again."""


class Admission:
    """The bound on texts that are inside the server, waiting or at work."""

    def __init__(self, max_texts: int) -> None:
        self.max_texts = max_texts
        self.num_texts = 0

    @contextlib.contextmanager
    def hold(self, num_texts: int) -> Iterator[None]:
        """Hold places for one request.

        Raises:
            QueueFull: they are not free.
        """
        if self.num_texts + num_texts > self.max_texts:
            raise QueueFull
        self.num_texts += num_texts
        try:
            yield
        finally:
            self.num_texts -= num_texts


@dataclass(eq=False, slots=True)
class _Request(Generic[Item, Result]):
    """What one caller waits for; ``num_taken`` items are in a batch or done."""

    items: Sequence[Item]
    done: "asyncio.Future[list[Result]]"
    results: list[Result] = field(default_factory=list)
    num_taken: int = 0


@dataclass(frozen=True, slots=True)
class _Share(Generic[Item, Result]):
    """The part of a batch that is one request's."""

    request: _Request[Item, Result]
    items: Sequence[Item]


class Batcher(Generic[Item, Result]):
    """A queue in front of a function that is better called with many items at once.

    The function runs in a thread of its own, one batch at a time. A request larger than a batch goes to the end
    of the queue after each batch that holds a part of it, so that small ones do not wait for all of it.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        max_batch: int,
        observe: Callable[[int], None],
    ) -> None:
        """Take the work.

        Args:
            work: Items to results, in order.
            max_batch: Items that it gets at once.
            observe: Called with the number of items of each batch.
        """
        self._work = work
        self._max_batch = max_batch
        self._observe = observe
        self._waiting: deque[_Request[Item, Result]] = deque()
        self._arrived = asyncio.Event()

    async def submit(self, items: Sequence[Item]) -> list[Result]:
        """Wait for the results of ``items``; what the work raises for them is raised here."""
        if not items:
            return []
        done: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Request(items, done))
        self._arrived.set()
        return await done

    async def run(self) -> None:
        """Work until cancelled."""
        with ThreadPoolExecutor(1) as thread:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                while shares := self._take():
                    await self._do(thread, shares)

    def _take(self) -> list[_Share[Item, Result]]:
        room, shares, unfinished = self._max_batch, [], []
        while self._waiting and room:
            request = self._waiting.popleft()
            if request.done.done():  # nobody waits any more, or a part of it failed
                continue
            part = request.items[request.num_taken : request.num_taken + room]
            request.num_taken += len(part)
            room -= len(part)
            shares.append(_Share(request, part))
            if request.num_taken < len(request.items):
                unfinished.append(request)
        self._waiting.extend(unfinished)
        return shares

    async def _do(self, thread: ThreadPoolExecutor, shares: Sequence[_Share[Item, Result]]) -> None:
        items = [item for share in shares for item in share.items]
        self._observe(len(items))
        call = asyncio.get_running_loop().run_in_executor(thread, self._work, items)
        await asyncio.wait([call])
        error = call.exception()
        if error is None:
            results = iter(call.result())
            for share in shares:
                _settle(share, [next(results) for _ in share.items])
        elif len(shares) == 1:
            if not shares[0].request.done.done():
                shares[0].request.done.set_exception(error)
        else:
            for share in shares:
                await self._do(thread, [share])


def _settle(share: _Share[Item, Result], results: Sequence[Result]) -> None:
    request = share.request
    request.results.extend(results)
    if len(request.results) == len(request.items) and not request.done.done():
        request.done.set_result(request.results)
