"""The queue in front of the encoder."""

import asyncio
import threading

import pytest

from agentic_r.export.server.batching import Admission, Batcher, QueueFull


class Work:
    """Doubles numbers; stops at a gate, fails on negative ones."""

    def __init__(self):
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, items):
        self.batches.append(list(items))
        assert self.gate.wait(20)
        if min(items) < 0:
            raise RuntimeError(f"cannot double {min(items)}")
        return [2 * item for item in items]


def run(work, *requests, max_batch=4, between=None):
    """Submit the first request, then (while it is at work) the others; return results or errors in order."""

    async def main():
        batcher = Batcher(work, max_batch=max_batch, observe=lambda number: None)
        running = asyncio.create_task(batcher.run())
        work.gate.clear()
        tasks = [asyncio.create_task(batcher.submit(requests[0]))]
        while not work.batches:
            await asyncio.sleep(0)
        tasks += [asyncio.create_task(batcher.submit(request)) for request in requests[1:]]
        await asyncio.sleep(0)
        if between:
            between(tasks)
            await asyncio.sleep(0)
        work.gate.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        running.cancel()
        await asyncio.wait([running])
        return results

    return asyncio.run(main())


def test_what_comes_in_while_a_batch_is_at_work_is_the_next_batch():
    work = Work()
    assert run(work, [1], [2], [3, 4]) == [[2], [4], [6, 8]]
    assert work.batches == [[1], [2, 3, 4]]


def test_a_large_request_does_not_make_a_small_one_wait_for_all_of_it():
    work = Work()
    assert run(work, [9], [1, 2, 3, 4, 5, 6, 7], [8], max_batch=3) == [[18], [2, 4, 6, 8, 10, 12, 14], [16]]
    # the large request gives a batch, then stands behind the small one
    assert work.batches == [[9], [1, 2, 3], [8, 4, 5], [6, 7]]


def test_a_failure_is_its_own_request_s_and_no_other_s():
    work = Work()
    first, good, bad, other = run(work, [1], [2], [-3], [4])
    assert (first, good, other) == ([2], [4], [8])
    assert isinstance(bad, RuntimeError)
    assert str(bad) == "cannot double -3"
    assert work.batches == [[1], [2, -3, 4], [2], [-3], [4]]


def test_a_request_that_failed_in_part_takes_no_further_batch():
    work = Work()
    _, bad = run(work, [1], [-1, 2, 3], max_batch=2)
    assert isinstance(bad, RuntimeError)
    assert work.batches == [[1], [-1, 2]]


def test_nobody_works_for_a_caller_that_left():
    work = Work()
    results = run(work, [1], [2], [3], between=lambda tasks: tasks[1].cancel())
    assert isinstance(results[1], asyncio.CancelledError)
    assert (results[0], results[2]) == ([2], [6])
    assert work.batches == [[1], [3]]


def test_no_items_are_no_work():
    work = Work()
    assert run(work, [1], [])[1] == []
    assert work.batches == [[1]]


def test_the_bound_counts_texts_and_frees_their_places():
    admission = Admission(5)
    with admission.hold(3):
        with admission.hold(2):
            assert admission.num_texts == 5
            with pytest.raises(QueueFull), admission.hold(1):
                pass
        assert admission.num_texts == 3
    with pytest.raises(ValueError, match="x"), admission.hold(5):
        raise ValueError("x")
    assert admission.num_texts == 0
