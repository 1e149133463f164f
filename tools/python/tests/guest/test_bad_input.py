# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bad input: each has an exception of its own and changes nothing."""

import zernel
from cuda import Context
from lab import Case

BIG = 1 << 64


class Attribute:
    """An object with attributes."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


class BadInput(Case):
    """The table of Documentation/runtime-python.rst."""

    def check(self, runtime: zernel.Runtime, table: list) -> None:
        """Each call of a table fails as it says, and nothing has changed then."""
        before = (runtime.counters(), runtime.stats(), runtime.level, zernel.stats()["slots"])
        for row, (call, kind, name) in enumerate(table):
            with self.subTest(row=row, name=name):
                with self.assertRaises(kind) as caught:
                    call()
                self.assertIs(type(caught.exception), kind)
                if issubclass(kind, zernel.Error):
                    self.assertEqual(caught.exception.name, name)
                else:
                    self.assertIn(name, str(caught.exception))
                after = (runtime.counters(), runtime.stats(), runtime.level,
                         zernel.stats()["slots"])
                self.assertEqual(after, before)

    def test_arguments(self) -> None:
        runtime = self.attach()
        misuse, request, attach = zernel.MisuseError, runtime.request, zernel.attach
        bad = "ZERNEL_BAD_ARGUMENT"
        self.check(runtime, [
            (lambda: attach(mode="on"), misuse, "ZERNEL_BAD_MODE"),
            (lambda: attach(lanes=0), misuse, "ZERNEL_BAD_LANES"),
            (lambda: attach(lanes=65), misuse, "ZERNEL_BAD_LANES"),
            (lambda: attach(lanes=BIG), misuse, bad),
            (lambda: attach(lanes="4"), TypeError, "str"),
            (lambda: attach(bound_us=0.5), misuse, "ZERNEL_BAD_BOUND"),
            (lambda: attach(bound_us=10_000_001), misuse, "ZERNEL_BAD_BOUND"),
            (lambda: attach(bound_us=float("nan")), misuse, bad),
            (lambda: attach(linger_us=-1), misuse, bad),
            (lambda: attach(linger_us=10_000_001), misuse, "ZERNEL_BAD_BOUND"),
            (lambda: attach(tsg=BIG), misuse, bad),
            (lambda: attach(tsg=BIG - 1), misuse, "ZERNEL_WRONG_TSG"),
            (lambda: attach(before=3), TypeError, "TsgsBefore"),
            (lambda: attach(colour="red"), TypeError, "unexpected keyword argument 'colour'"),
            (lambda: attach(library="/nonexistent/libcuda.so.1", mode="require"),
             zernel.UnavailableError, "ZERNEL_NO_CUDA"),
            (lambda: attach(device="/nonexistent/zernel", mode="require"),
             zernel.UnavailableError, "ZERNEL_NO_MODULE"),
            (lambda: attach(device="/dev/null", mode="require"), zernel.Error,
             "ZERNEL_CALL_FAILED"),
            (lambda: attach(mode="off").request("stream"), TypeError, "str is no stream"),
            (lambda: zernel.Runtime.on_device(2), misuse, bad),
            (lambda: zernel.Runtime.on_device(-1), misuse, bad),
            (lambda: request(key=-1), misuse, bad),
            (lambda: request(key=BIG), misuse, bad),
            (lambda: request(key=1.5), TypeError, "float"),
            (lambda: request(expected_us=-1), misuse, bad),
            (lambda: request(expected_us=float("inf")), misuse, bad),
            (lambda: request(slo_ms=float("nan")), misuse, bad),
            (lambda: request(slo_ms="1"), TypeError, "str"),
            (lambda: request(inline=True), misuse, bad),
            (lambda: runtime.set_level(8), misuse, bad),
            (lambda: runtime.set_level(-1), misuse, bad),
            (lambda: runtime.set_level(0, timeslice_us=9), zernel.Error, "ZERNEL_CALL_FAILED"),
        ])

    def test_streams(self) -> None:
        runtime = self.attach()
        own = self.context.stream()
        other = Context(self.cuda)
        foreign = other.stream()
        self.cuda.set_current(self.context)
        captured = self.context.stream()
        self.context.capture(captured)
        misuse, request = zernel.MisuseError, runtime.request
        held = request(exact=True)
        self.check(runtime, [
            (lambda: request(foreign), misuse, "ZERNEL_FOREIGN_STREAM"),
            (lambda: request(foreign, inline=True), misuse, "ZERNEL_FOREIGN_STREAM"),
            (lambda: request(Attribute(cuda_stream=foreign)), misuse, "ZERNEL_FOREIGN_STREAM"),
            (lambda: request(Attribute(ptr=foreign)), misuse, "ZERNEL_FOREIGN_STREAM"),
            (lambda: request(Attribute(__cuda_stream__=lambda: (0, foreign))), misuse,
             "ZERNEL_FOREIGN_STREAM"),
            (lambda: request(Attribute(__cuda_stream__=lambda: (1, own))), misuse,
             "ZERNEL_BAD_ARGUMENT"),
            (lambda: request(Attribute(__cuda_stream__=lambda: own)), TypeError, "tuple"),
            (lambda: request(-1), misuse, "ZERNEL_BAD_ARGUMENT"),
            (lambda: request(BIG), misuse, "ZERNEL_BAD_ARGUMENT"),
            (lambda: request(True), TypeError, "bool is no stream"),
            (lambda: request(object()), TypeError, "object is no stream"),
            (lambda: request(captured), misuse, "ZERNEL_CAPTURING"),
            (lambda: runtime.check_stream(captured), misuse, "ZERNEL_CAPTURING"),
            (lambda: held.done_in(foreign), misuse, "ZERNEL_FOREIGN_STREAM"),
            (lambda: held.done_in(captured), misuse, "ZERNEL_CAPTURING"),
        ])
        # None of these has ended the request.
        self.assertFalse(held.is_over)
        held.done_in(own)
        self.context.end_capture(captured)
        with request(Attribute(__cuda_stream__=lambda: (0, own))) as good:
            self.assertIsNone(good.idle)

    def test_requests_that_are_over(self) -> None:
        runtime = self.attach()
        over = runtime.request(exact=True)
        over.cancel()
        closed = zernel.attach(mode="off")
        closed.close()
        misuse, gone = zernel.MisuseError, zernel.ClosedError
        self.check(runtime, [
            (over.ready, misuse, "ZERNEL_REQUEST_OVER"),
            (over.done, misuse, "ZERNEL_REQUEST_OVER"),
            (over.cancel, misuse, "ZERNEL_REQUEST_OVER"),
            (lambda: over.done_in(0), misuse, "ZERNEL_REQUEST_OVER"),
            (closed.request, gone, "ZERNEL_SHUT_DOWN"),
            (closed.counters, gone, "ZERNEL_SHUT_DOWN"),
            (lambda: closed.inert, gone, "ZERNEL_SHUT_DOWN"),
            (closed.make_current, gone, "ZERNEL_SHUT_DOWN"),
            (lambda: zernel.Request(), TypeError, "cannot create"),
        ])
        closed.close()

    def test_an_end_in_a_captured_stream(self) -> None:
        runtime = self.attach(lanes=1)
        stream = self.context.stream()
        with self.assertRaises(zernel.MisuseError) as caught:
            with runtime.request(stream, exact=True) as request:
                request.ready()
                self.context.capture(stream)
        self.assertEqual(caught.exception.name, "ZERNEL_CAPTURING")
        self.context.end_capture(stream)
        # It is done nevertheless, and its lane free.
        self.assertTrue(request.is_over)
        with runtime.request(exact=True) as following:
            self.assertIsNone(following.idle)
            self.assertEqual(runtime.stats()["done"], 1)
