# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads arrays with the example `read` of the prefetcher, and compares them with what they are."""

import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

READER = os.environ["ZERNEL_READER"]
# Boxes of an array besides the whole of it.
BOXES = 12


class Fault(Exception):
    """A batch that was not read; the text begins with the kind of its fault."""


def read(place, batches, *more):
    """The samples of each batch as bytes, or its fault. A sample is (array, start, shape)."""
    lines = "".join(json.dumps(batch) + "\n" for batch in batches)
    done = subprocess.run([READER, str(place), *more], input=lines.encode(), stdout=subprocess.PIPE,
                          check=True)
    rest, answers = done.stdout, []
    for _ in batches:
        line, _, rest = rest.partition(b"\n")
        word, _, text = line.decode().partition(" ")
        if word == "fault":
            answers.append(Fault(text))
            continue
        assert word == "ok", line
        samples = []
        for size in map(int, text.split()):
            samples.append(rest[:size])
            rest = rest[size:]
        answers.append(samples)
    assert not rest, f"{len(rest)} bytes more"
    return answers


def boxes(shape, seed):
    """The whole array, its last element, and boxes anywhere, some of them empty."""
    rng = random.Random(seed)
    found = [([0] * len(shape), list(shape))]
    if 0 not in shape:
        found.append(([size - 1 for size in shape], [1] * len(shape)))
    for _ in range(BOXES):
        start = [rng.randint(0, size) for size in shape]
        found.append((start, [rng.randint(0, size - at) for size, at in zip(shape, start)]))
    return found


class Reading(unittest.TestCase):
    """A folder for arrays, and what has to be in them."""

    # The place of arrays for the reader, where it is no folder.
    place = None
    # More arguments of the reader.
    more = ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.expected = {}

    def tearDown(self):
        # All arrays of a test are read by one process, which knows them all at once.
        if self.expected:
            self.compare()

    def compare(self):
        """Compares boxes of all arrays with the same of arrays in memory."""
        batches, places = [], []
        for seed, (name, whole) in enumerate(self.expected.items()):
            found = boxes(whole.shape, seed)
            # One batch of all boxes, which share chunks, and one for each of the first two.
            for batch in (found, found[:1], found[1:2]):
                if batch:
                    batches.append([(name, *box) for box in batch])
                    places.append((name, whole, batch))
        for (name, whole, batch), answer in zip(places, read(self.place or self.folder, batches, *self.more)):
            with self.subTest(array=name, boxes=len(batch)):
                if isinstance(answer, Fault):
                    self.fail(f"it is not read: {answer}")
                for (start, shape), there in zip(batch, answer, strict=True):
                    part = whole[tuple(slice(at, at + size) for at, size in zip(start, shape))]
                    native = np.ascontiguousarray(part).reshape(shape)
                    native = native.astype(native.dtype.newbyteorder("="))
                    self.assertEqual(there, native.tobytes(), f"{start} + {shape}")

    def refuses(self, name, shape, kind):
        """Has the array be a fault of a kind, which is not bytes of any value."""
        batches = [[(name, [0] * len(shape), list(shape))]]
        answer, = read(self.place or self.folder, batches, *self.more)
        self.assertIsInstance(answer, Fault, name)
        self.assertEqual(str(answer).partition(":")[0], kind, answer)


def numbers(dtype, shape, seed=1):
    """Random elements, all bit patterns of integers among them."""
    dtype, rng = np.dtype(dtype), np.random.default_rng(seed)
    count = int(np.prod(shape))
    match dtype.kind:
        case "b":
            found = rng.integers(0, 2, count).astype(dtype)
        case "i" | "u":
            native = dtype.newbyteorder("=")
            found = np.frombuffer(rng.bytes(count * dtype.itemsize), native).astype(dtype)
        case "c":
            found = (rng.normal(size=count) + 1j * rng.normal(size=count)).astype(dtype)
        case _:
            found = rng.normal(size=count).astype(dtype)
    return found.reshape(shape)
