# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server and a job in Python, which are processes of their own on one GPU."""

import os
import subprocess
import sys
import time
from pathlib import Path

import zernel
from harness import PATIENCE_S
from lab import TICK_NS, Case

COUNT = 50
PREPARE_S = 300e-6
#: Best-effort work until the input ends; it says when it has begun.
JOB = """
import select, sys, time
sys.path[:0] = {paths!r}
import zernel
from cuda import Context, Cuda

context = Context(Cuda())
with zernel.Scheduler(mode="require") as scheduler:
    @scheduler.best_effort
    def train():
        for _ in range(4):
            context.work(1_000_000)
        context.wait()

    begun = False
    while not select.select([sys.stdin], [], [], 0)[0]:
        scheduler.submit(train).result()
        if not begun:
            begun = True
            print("it works", flush=True)
    # zernel looks at it from time to time.
    end = time.monotonic() + 10
    while not (preempted := scheduler.get_metrics().times_preempted) and time.monotonic() < end:
        time.sleep(0.001)
context.destroy()
print(preempted)
"""


class Server(Case):
    """Beside a job."""

    def answers(self, config: str) -> zernel.Metrics:
        """Answers, as a configuration says."""
        stream = self.context.stream()
        path = Path(f"/tmp/zernel-{os.getpid()}.yaml")
        path.write_text(config, encoding="utf-8")
        with zernel.Scheduler(path, mode="require") as scheduler:

            @scheduler.latency_critical(stream=stream)
            def answer(number: int) -> int:
                time.sleep(PREPARE_S)
                self.context.work(TICK_NS, stream)
                zernel.ready()
                self.context.wait(stream)
                return number

            for number in range(COUNT):
                self.assertEqual(scheduler.submit(answer, args=(number,)).result(PATIENCE_S), number)
            return scheduler.get_metrics()

    def check(self, config: str, has_requests: bool) -> None:
        """It answers, and the job works before and after."""
        job = subprocess.Popen([sys.executable, "-c", JOB.format(paths=sys.path[:2])], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.assertEqual(job.stdout.readline(), "it works\n")
            metrics = self.answers(config)
        finally:
            said, _ = job.communicate()
        self.assertEqual(job.returncode, 0)
        self.assertGreater(int(said), 0, "others had the GPU meanwhile")
        self.assertEqual((metrics.completed, metrics.failed), (COUNT, 0))
        begun = metrics.requests_begun or 0
        self.assertEqual(begun + (metrics.requests_idle or 0), COUNT if has_requests else 0)
        if has_requests:
            self.assertGreater(begun, 0)
            self.assertGreater(metrics.total_preemptions, 0)

    def test_by_its_class(self) -> None:
        self.check("preemption: {enabled: false}\n", has_requests=False)

    def test_with_requests_beside(self) -> None:
        self.check("", has_requests=True)

    def test_with_requests_inline(self) -> None:
        self.check("preemption: {inline: true}\n", has_requests=True)
