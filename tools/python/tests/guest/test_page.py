# SPDX-License-Identifier: MIT OR Apache-2.0
"""The examples of the page, and requests on PyTorch's stream, with zernel."""

import contextlib
import io
import os
from pathlib import Path

import page
import standin
import zernel.torch
from cuda import Context
from harness import wait_until
from lab import TICK_NS, Case

PAGE = Path(__file__).resolve().parents[2] / "runtime-python.rst"


class Page(Case):
    """Documentation/runtime-python.rst."""

    def test_examples(self) -> None:
        os.environ["ZERNEL"] = "require"
        stream = self.context.stream()
        standin.install(lambda: stream, self.context)
        found = page.examples(PAGE)
        os.chdir("/tmp")
        for name, text in found["yaml"]:
            Path(name).write_text(text, encoding="utf-8")
        self.assertGreater(len(found["python"]), 6)
        for name, text in found["python"]:
            said = io.StringIO()
            before = zernel.torch.runtime().counters()["begun"]
            with self.subTest(name), contextlib.redirect_stdout(said):
                exec(compile(text, name, "exec"), {"__name__": "__main__"})
            if name == "serve.py":
                self.assertRegex(said.getvalue(), r"^4\n499500\n4\n[0-9.]+ [12] ([0-9.]+|None)\n$")
            elif name == "replay.py":
                # Each of its replays was the work of a request.
                begun = zernel.torch.runtime().counters()["begun"] - before
                self.assertEqual((said.getvalue(), begun), ("1\n2\n", 2))
        self.context.wait(stream)
        zernel.torch.runtime().close()


class Torch(Case):
    """`zernel.torch`, with a stand-in for PyTorch."""

    def test_a_request_is_done_when_the_current_stream_is(self) -> None:
        stream = self.context.stream()
        standin.install(lambda: stream)
        runtime = zernel.torch.runtime()
        self.assertIs(zernel.torch.runtime(0), runtime)
        self.assertIsNone(runtime.inert)
        release = self.context.hold(stream)
        with zernel.torch.request(key="model", exact=True) as request:
            self.assertIsNone(request.idle)
            request.ready()
            self.context.work(TICK_NS, stream)
        self.assertFalse(self.context.is_idle(stream), "the block has not waited")
        release()
        self.context.wait(stream)
        # The done word is seen at the next begin of the slot, or when zernel looks.
        wait_until("it is done", lambda: runtime.request(exact=True).idle is None and
                   runtime.stats()["done"] == 1)
        runtime.close()
        following = zernel.torch.runtime()
        self.assertIsNot(following, runtime)
        self.assertIsNone(following.request(exact=True).idle)
        # A context that is lost has no requests; PyTorch has made another one since.
        self.context.fault()
        wait_until("the runtime sees it", lambda: following.request().idle in ("lost", "refused")
                   and following.inert is not None)
        self.context.destroy()
        self.context = Context(self.cuda)
        self.assertIsNone(zernel.torch.runtime().inert)
        zernel.torch.runtime().close()

    def test_replays_of_a_graph_have_requests(self) -> None:
        stream = self.context.stream()
        torch = standin.install(lambda: stream, self.context)
        runtime = zernel.torch.runtime()
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        with zernel.torch.graph(graph) as requests:
            self.context.work(TICK_NS, stream)
        for number in range(10):
            with requests.request(torch.cuda.current_stream(), key="model", exact=True) as request:
                self.assertIsNone(request.idle, number)
                graph.replay()
                self.assertFalse(self.context.is_idle(stream), "it waits for the data")
                request.ready()
            self.context.wait(stream)
        # One that PyTorch does not keep, and a block that fails, have no requests and no lane.
        for keep in (False, True):
            with self.assertRaises(RuntimeError):
                with zernel.torch.graph(torch.cuda.CUDAGraph(keep)) as other:
                    self.context.work(TICK_NS, stream)
                    if keep:
                        raise RuntimeError("of the block")
            self.fails(zernel.ClosedError, "ZERNEL_SHUT_DOWN", other.request)
        counters = runtime.counters()
        self.assertEqual((counters["begun"], counters["failed_calls"]), (10, 0))
        late = {"expected_us": 5_000_000, "exact": True}
        taken = [runtime.request(**late) for _ in range(4)]
        self.assertEqual([one.idle for one in taken], [None, None, None, "no_lane"])
        for one in taken:
            one.cancel()
        requests.close()
        runtime.close()
