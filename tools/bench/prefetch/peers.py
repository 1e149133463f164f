# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads a run with another library: `peers.py LIBRARY`, with the run in the input. See src/load.rs.

- tensorstore: one context with a cache of the bytes of the run, as many requests and batches in
  flight, arrays looked at when they are opened alone, and one batch of requests for each of samples.
- tensorstore-plain: tensorstore as it comes, batch by batch.
- zarr-obstore, zarr-fsspec: zarr-python over obstore, or over fsspec. Its asynchronous calls, all
  samples of the batches ahead at once.
- zarrs: the pipeline of zarrs under zarr-python, over obstore. Its calls that wait, each in a thread:
  it reads within the call, which would keep asynchronous ones from each other.
"""

import asyncio
import importlib.metadata
import json
import os
import resource
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np


def total(array):
    """All bytes of a sample, added up."""
    return int(np.ascontiguousarray(array).view(np.uint8).sum(dtype=np.uint64))


def box(start, shape):
    """A sample's place, as slices."""
    return tuple(slice(at, at + size) for at, size in zip(start, shape))


class Tensorstore:
    """Tensorstore, tuned or not."""

    def __init__(self, run, tuned):
        import tensorstore as ts
        self.ts, self.run, self.tuned = ts, run, tuned
        self.version = importlib.metadata.version("tensorstore")
        self.ahead = run["ahead"] if tuned else 1
        self.arrays = {}
        limit = {"limit": run["in_flight"]}
        self.context = ts.Context({"cache_pool": {"total_bytes_limit": run["bytes"]},
                                   "http_request_concurrency": limit,
                                   "file_io_concurrency": limit} if tuned else {})

    def array(self, name, batch):
        """An array, opened once."""
        if name not in self.arrays:
            place = self.run["place"]
            store = {"driver": "http", "base_url": place, "path": f"/{name}/"} \
                if place.startswith("http") else {"driver": "file", "path": f"{place}/{name}/"}
            more = {"recheck_cached_metadata": "open", "recheck_cached_data": "open"} \
                if self.tuned else {}
            self.arrays[name] = self.ts.open({"driver": "zarr3", "kvstore": store, **more},
                                             context=self.context, read=True, batch=batch)
        return self.arrays[name]

    async def one(self, sample, batch):
        """A sample."""
        name, start, shape = sample
        array = await self.array(name, batch)
        return await array[box(start, shape)].read(batch=batch)

    async def batch(self, samples):
        """A batch."""
        if not self.tuned:
            return await asyncio.gather(*(self.one(sample, None) for sample in samples))
        # Arrays first: a batch of requests is sent when it is complete.
        names = {name for name, _, _ in samples}
        with self.ts.Batch() as opening:
            opened = [self.array(name, opening) for name in names]
        arrays = dict(zip(names, await asyncio.gather(*opened)))
        with self.ts.Batch() as reading:
            reads = [arrays[name][box(start, shape)].read(batch=reading)
                     for name, start, shape in samples]
        return await asyncio.gather(*reads)


class Zarr:
    """zarr-python over a store."""

    def __init__(self, run, kind):
        import zarr
        zarr.config.set({"async.concurrency": run["in_flight"]})
        self.version = importlib.metadata.version("zarr")
        self.zarr, self.place, self.ahead, self.arrays = zarr, run["place"], run["ahead"], {}
        self.kind = kind
        self.gate = asyncio.Semaphore(run["in_flight"])

    def store(self, name):
        """The store of an array."""
        if not self.place.startswith("http"):
            from zarr.storage import LocalStore
            return LocalStore(f"{self.place}/{name}", read_only=True)
        if self.kind != "zarr-fsspec":
            from obstore.store import HTTPStore
            from zarr.storage import ObjectStore
            return ObjectStore(HTTPStore(f"{self.place}/{name}",
                                         client_options={"allow_http": True}), read_only=True)
        from zarr.storage import FsspecStore
        return FsspecStore.from_url(f"{self.place}/{name}", read_only=True)

    async def array(self, name):
        """An array, opened once."""
        if name not in self.arrays:
            opening = self.zarr.api.asynchronous.open_array(store=self.store(name), zarr_format=3)
            self.arrays[name] = asyncio.ensure_future(opening)
        return await self.arrays[name]

    async def one(self, sample):
        """A sample."""
        name, start, shape = sample
        async with self.gate:
            array = await self.array(name)
            return await array.getitem(box(start, shape))

    async def batch(self, samples):
        """A batch."""
        return await asyncio.gather(*map(self.one, samples))


class Zarrs(Zarr):
    """The same with the pipeline of zarrs, by threads."""

    def __init__(self, run):
        super().__init__(run, "zarrs")
        self.zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
        self.version = f"{importlib.metadata.version('zarrs')} (zarr {self.version})"
        # Its reads wait in threads of its own.
        os.environ["RAYON_NUM_THREADS"] = str(run["in_flight"])
        self.zarr.config.set({"threading.max_workers": run["in_flight"]})
        self.threads = ThreadPoolExecutor(run["in_flight"])

    def wait(self, sample):
        """A sample, waited for."""
        name, start, shape = sample
        # Two threads may open an array both, as either is as good.
        if name not in self.arrays:
            self.arrays[name] = self.zarr.open_array(store=self.store(name), mode="r", zarr_format=3)
        return self.arrays[name][box(start, shape)]

    async def one(self, sample):
        """A sample."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, self.wait, sample)


async def epoch(library, batches):
    """Reads an epoch with as many batches ahead as the library is to have."""
    begin = last = time.monotonic()
    before = time.process_time()
    waits, ahead, sum_of_all = [], deque(), 0
    rest = iter(batches)
    while True:
        for samples in rest:
            ahead.append(asyncio.ensure_future(library.batch(samples)))
            if len(ahead) >= library.ahead:
                break
        if not ahead:
            break
        loaded = await ahead.popleft()
        now = time.monotonic()
        waits.append(now - last)
        last = now
        sum_of_all += sum(map(total, loaded))
    return {"seconds": time.monotonic() - begin, "waits": waits,
            "cpu": time.process_time() - before, "sum": sum_of_all}


async def main():
    """Reads the run, and prints its result."""
    run, name = json.load(sys.stdin), sys.argv[1]
    if name.startswith("tensorstore"):
        library = Tensorstore(run, name == "tensorstore")
    else:
        library = Zarrs(run) if name == "zarrs" else Zarr(run, name)
    epochs, fault = [], None
    try:
        for batches in run["epochs"]:
            epochs.append(await epoch(library, batches))
    # Each library has errors of its own.
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"[:300]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    # Reads that are left would keep the process.
    print(json.dumps({"version": library.version, "epochs": epochs, "fault": fault,
                      "memory": memory}), flush=True)
    os._exit(0)


asyncio.run(main())
