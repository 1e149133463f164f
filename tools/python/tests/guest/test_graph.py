# SPDX-License-Identifier: MIT OR Apache-2.0
"""Requests that are parts of graphs, on the software GPU."""

import os
import threading

import zernel
from harness import PATIENCE_S, wait_until
from lab import LATE_US, TICK_NS, Case

COUNT = 60
LATE = {"expected_us": LATE_US, "exact": True}


class Torch:
    """A graph as PyTorch has it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def raw_cuda_graph_exec(self) -> int:
        """Its handle."""
        return self._handle


class Graphs(Case):
    """From record to the end."""

    def setUp(self) -> None:
        super().setUp()
        self.stream = self.context.stream()

    def capture(self, runtime: zernel.Runtime) -> tuple[zernel.GraphRequests, int]:
        """A graph with requests, instantiated, and its handle."""
        self.context.capture(self.stream)
        requests = runtime.record(self.stream)
        self.context.work(TICK_NS, self.stream)
        self.captured = self.context.end_capture(self.stream)
        made = self.context.instantiate(self.captured)
        requests.instantiated(made)
        return requests, made

    def launch(self, made: int) -> None:
        """Launches a graph."""
        self.context.launch(made, self.stream)

    def is_waiting(self) -> bool:
        """True if something is left to do in the stream."""
        return not self.context.is_idle(self.stream)

    def test_each_launch_is_the_work_of_its_request(self) -> None:
        runtime = self.attach()
        requests, made = self.capture(runtime)
        self.assertEqual(repr(requests), "<zernel.GraphRequests instantiated>")
        self.launch(made)
        self.context.wait(self.stream)
        for number in range(COUNT):
            late = LATE if number % 2 else {"exact": True}
            stream = self.stream if number % 3 == 0 else None
            with requests.request(stream, key="graph", **late) as request:
                self.assertIsNone(request.idle)
                self.launch(made)
                self.assertTrue(self.is_waiting())
                if number % 3 == 2:
                    request.cancel()
                    continue
                request.ready()
                if number % 3 == 1:
                    self.context.wait(self.stream)
            self.context.wait(self.stream)
            # Again without one.
            self.launch(made)
            self.context.wait(self.stream)
        # Of another instance of the graph, as PyTorch has it.
        made = self.context.instantiate(self.captured)
        requests.instantiated(Torch(made))
        request = requests.request(**LATE)
        self.launch(made)
        self.assertTrue(self.is_waiting())
        request.cancel()
        self.context.wait(self.stream)
        stats, counters = runtime.stats(), runtime.counters()
        self.assertEqual((stats["begun"], stats["done"], stats["cancelled"], stats["expired"]),
                         (COUNT + 1, COUNT * 2 // 3, COUNT // 3 + 1, 0))
        self.assertEqual((counters["begun"], counters["failed_calls"]), (COUNT + 1, 0))

    def test_it_has_a_lane_for_itself(self) -> None:
        runtime = self.attach(lanes=1)
        requests, made = self.capture(runtime)
        self.assertEqual(runtime.request(**LATE).idle, "no_lane")
        request = requests.request(**LATE)
        with requests.request(**LATE) as following:
            self.assertEqual(following.idle, "no_lane")
            following.ready()
        self.assertEqual(runtime.counters()["no_lane"], 2)
        self.launch(made)
        with requests:
            self.assertTrue(self.is_waiting())
        self.assertEqual(repr(requests), "<zernel.GraphRequests closed>")
        requests.close()
        self.fails(zernel.ClosedError, "ZERNEL_SHUT_DOWN", requests.request)
        self.fails(zernel.ClosedError, "ZERNEL_SHUT_DOWN", requests.instantiated, made)
        # The request that was there goes on, and the lane is free behind it.
        self.assertEqual(runtime.request(**LATE).idle, "no_lane")
        request.ready()
        self.context.wait(self.stream)
        request.done()
        # Nothing keeps it.
        del request
        runtime.request(**LATE).cancel()
        # The graph of those that are forgotten may be launched still: the lane stays its own.
        requests, made = self.capture(runtime)
        self.assertEqual(runtime.counters()["kept_lanes"], 0)
        del requests
        self.assertEqual(runtime.counters()["kept_lanes"], 1)
        self.assertEqual(runtime.request(**LATE).idle, "no_lane")
        self.launch(made)
        self.context.wait(self.stream)
        # Also without its runtime, whose words it looks at.
        runtime.close()
        self.launch(made)
        self.context.wait(self.stream)

    def test_an_end_waits_for_begins(self) -> None:
        runtime = self.attach()
        for again in (False, True) * 20:
            requests, made = self.capture(runtime)
            ended, begun = threading.Event(), threading.Event()

            def serve() -> None:
                runtime.make_current()
                while not ended.is_set():
                    try:
                        requests.request(exact=True).cancel()
                    except zernel.ClosedError:
                        return
                    begun.set()

            threads = [threading.Thread(target=serve, daemon=True) for _ in range(3)]
            for thread in threads:
                thread.start()
            self.assertTrue(begun.wait(PATIENCE_S))
            if again:
                # That waits for begins in the graph from before, and begins go on.
                other = self.context.instantiate(self.captured)
                while True:
                    try:
                        requests.instantiated(other)
                        break
                    except zernel.Error as error:
                        self.assertEqual(error.name, "ZERNEL_NO_LANE")
                self.cuda.call("cuGraphExecDestroy", self.handle(made))
                begun.clear()
                self.assertTrue(begun.wait(PATIENCE_S))
                made = other
            requests.close()
            self.cuda.call("cuGraphExecDestroy", self.handle(made))
            ended.set()
            for thread in threads:
                thread.join()
        # No begin met a graph that was destroyed.
        self.assertEqual(runtime.counters()["failed_calls"], 0)

    def test_a_child_does_nothing(self) -> None:
        runtime = self.attach()
        requests, made = self.capture(runtime)
        request = requests.request(**LATE)
        child = os.fork()
        if child == 0:
            found = [requests.request().idle]
            for call in (lambda: runtime.record(self.stream), lambda: requests.instantiated(made)):
                try:
                    call()
                except zernel.ForkedError as error:
                    found.append(error.name)
            requests.close()
            os._exit(0 if found == ["forked"] + 2 * ["ZERNEL_FORKED"] else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.launch(made)
        self.assertTrue(self.is_waiting())
        request.ready()
        self.context.wait(self.stream)
        request.done()

    def test_graphs_and_contexts_that_are_gone(self) -> None:
        runtime = self.attach()
        requests, made = self.capture(runtime)
        self.cuda.call("cuGraphDestroy", self.handle(self.captured))
        self.assertEqual(requests.request(exact=True).idle, "refused")
        self.assertEqual(runtime.counters()["failed_calls"], 1)
        self.launch(made)
        self.context.wait(self.stream)
        requests, made = self.capture(runtime)
        request = requests.request(**LATE)
        self.launch(made)
        request.cancel()
        self.context.wait(self.stream)
        self.context.fault()
        # A call that meets the error finds it out.
        wait_until("the runtime sees it", lambda: runtime.request().idle in ("lost", "refused") and
                   runtime.inert is not None)
        self.assertEqual(requests.request().idle, "lost")
        runtime.close()

    def test_it_keeps_a_runtime_that_is_closed(self) -> None:
        runtime = self.attach()
        requests, made = self.capture(runtime)
        runtime.close()
        self.fails(zernel.ClosedError, "ZERNEL_SHUT_DOWN", runtime.record, self.stream)
        with requests.request(**LATE) as request:
            self.assertIsNone(request.idle)
            self.launch(made)
            request.ready()
            self.context.wait(self.stream)
        requests.close()
        del request, requests
        wait_until("its slots are free", lambda: zernel.stats()["slots"] == 0)

    def test_threads_share_it(self) -> None:
        runtime = self.attach()
        requests, made = self.capture(runtime)
        gate, found = threading.Lock(), []

        def serve() -> None:
            runtime.make_current()
            for _ in range(50):
                with requests.request(exact=True) as request:
                    found.append(request.idle)
                    if request.idle is None:
                        with gate:
                            self.launch(made)
                            request.ready()
                            self.context.wait(self.stream)

        threads = [threading.Thread(target=serve) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counters = runtime.counters()
        self.assertEqual(len(found), 200)
        self.assertEqual(set(found) - {None, "no_lane"}, set())
        self.assertEqual((counters["begun"], counters["no_lane"]),
                         (found.count(None), found.count("no_lane")))

    def test_an_inert_one(self) -> None:
        runtime = zernel.attach(mode="off")
        requests, made = self.capture(runtime)
        with requests.request(self.stream, key=7) as request:
            self.launch(made)
            self.context.wait(self.stream)
            self.assertEqual(request.idle, "inert")
            request.ready()
