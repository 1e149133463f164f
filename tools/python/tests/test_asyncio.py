# SPDX-License-Identifier: MIT OR Apache-2.0
"""Schedulers and event loops."""

import asyncio
import threading
import unittest

import zernel


class Async(unittest.IsolatedAsyncioTestCase):
    """Variants for coroutines."""

    def setUp(self) -> None:
        self.scheduler = zernel.Scheduler(mode="off")
        self.addCleanup(self.scheduler.close)

    async def test_a_request_is_a_block(self) -> None:
        waiting = self.scheduler.arequest(key="block", slo_ms=5)
        async with waiting as request:
            self.assertFalse(request.is_over)
            await asyncio.sleep(0)
            request.ready()
        self.assertTrue(request.is_over)
        with self.assertRaisesRegex(zernel.MisuseError, "for one block"):
            async with waiting:
                self.fail("it began twice")

    async def test_bad_arguments_are_those_of_requests(self) -> None:
        with self.assertRaises(zernel.MisuseError):
            async with self.scheduler.arequest(key=-1):
                self.fail("it began")

    async def test_a_cancelled_block(self) -> None:
        began, requests = asyncio.Event(), []

        async def block() -> None:
            async with self.scheduler.arequest() as request:
                requests.append(request)
                began.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(block())
        await began.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertTrue(requests[0].is_over)
        self.assertFalse(requests[0].is_ready)

    async def test_a_function_runs_in_a_thread(self) -> None:
        @self.scheduler.latency_critical
        def where(suffix: str = "") -> str:
            return threading.current_thread().name + suffix

        self.assertRegex(await self.scheduler.asubmit(where), "^zernel-lc-")
        self.assertRegex(await self.scheduler.asubmit(where, kwargs={"suffix": "!"}), "!$")
        self.assertRegex(await self.scheduler.asubmit(lambda: where("?")), "^zernel-be-.*[?]$")

    async def test_a_coroutine_function_runs_here(self) -> None:
        @self.scheduler.latency_critical
        async def answer(number: int) -> tuple[int, bool]:
            request = zernel.current_request()
            await asyncio.sleep(0)
            zernel.ready()
            return number, request.is_ready and zernel.current_request() is request

        answers = await asyncio.gather(*(self.scheduler.asubmit(answer, (n,)) for n in range(9)))
        self.assertEqual(answers, [(number, True) for number in range(9)])
        self.assertEqual(await answer(9), (9, True))
        self.assertIsNone(zernel.current_request())
        self.assertEqual(self.scheduler.get_metrics().completed, 10)

    async def test_exceptions_arrive(self) -> None:
        @self.scheduler.latency_critical
        async def fail() -> None:
            raise LookupError

        for call in (self.scheduler.asubmit(fail), fail(), self.scheduler.asubmit({}.popitem)):
            with self.assertRaises(LookupError):
                await call
        metrics = self.scheduler.get_metrics()
        self.assertEqual((metrics.failed, metrics.running), (3, 0))

    async def test_a_time_out_cancels_a_call_that_waits(self) -> None:
        go, made = threading.Event(), []
        self.addCleanup(go.set)
        futures = [self.scheduler.submit(go.wait) for _ in range(self.scheduler.config["workers"])]
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(self.scheduler.asubmit(made.append, (1,)), 0.01)
        go.set()
        for future in futures:
            await asyncio.wrap_future(future)
        self.scheduler.close()
        self.assertEqual(made, [])
        self.assertEqual(self.scheduler.get_metrics().cancelled, 1)


if __name__ == "__main__":
    unittest.main()
