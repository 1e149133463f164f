# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arrays of Zarr in a folder, and a server of HTTP for them that takes its time or fails."""

import http.server
import itertools
import json
import math
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ABSENT = (1 << 64) - 1


def boxes(shape: list[int], side: list[int]) -> Iterator[tuple[int, ...]]:
    """The places of tiles in a grid."""
    return itertools.product(*(range(-(-all_ // one)) for all_, one in zip(shape, side)))


def value(at: tuple[int, ...], shape: list[int]) -> int:
    """The element there: all differ, in C order from 1 on."""
    number = 0
    for place, side in zip(at, shape):
        number = number * side + place
    return number + 1


def elements(start: tuple[int, ...], size: list[int], shape: list[int], fill: int) -> list[int]:
    """Those of a box, in C order, with fill values beyond the array."""
    found = []
    for within in itertools.product(*(range(side) for side in size)):
        at = tuple(map(sum, zip(start, within)))
        is_there = all(place < side for place, side in zip(at, shape))
        found.append(value(at, shape) if is_there else fill)
    return found


def write(folder: Path, name: str, shape: list[int], shard: list[int], chunk: list[int] | None = None,
          data_type: str = "uint32", code: str = "I", fill: object = 7, **more: object) -> None:
    """Writes an array of consecutive numbers, with shards if there are chunks in them."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    plain = [{"name": "bytes", "configuration": {"endian": "little"}}]
    codecs: list = plain
    if chunk is not None:
        codecs = [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": chunk, "codecs": plain, "index_codecs": plain}}]
    metadata = {
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shard}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill, "codecs": codecs} | more
    (place / "zarr.json").write_text(json.dumps(metadata), encoding="utf-8")

    def packed(start: tuple[int, ...], size: list[int]) -> bytes:
        found = elements(start, size, shape, 0)
        return struct.pack(f"<{len(found)}{code}", *found)

    for tile in boxes(shape, shard):
        start = tuple(at * side for at, side in zip(tile, shard))
        body = b""
        if chunk is None:
            body = packed(start, shard)
        else:
            index = b""
            for part in boxes(shard, chunk):
                inner = tuple(a + b * side for a, b, side in zip(start, part, chunk))
                some = packed(inner, chunk)
                index += struct.pack("<QQ", len(body), len(some))
                body += some
            body += index
        file = place.joinpath("c", *map(str, tile))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)


def rows(name: str, shape: list[int]) -> list[tuple[str, tuple[int, int], tuple[int, int]]]:
    """A sample for each row of an array of two dimensions."""
    return [(name, (row, 0), (1, shape[1])) for row in range(shape[0])]


def row(number: int, shape: list[int]) -> list[int]:
    """The elements of such a sample."""
    return list(range(number * shape[1] + 1, (number + 1) * shape[1] + 1))


def numbers(tensor: object, code: str = "I") -> list[int]:
    """The elements of a tensor, in C order."""
    body = memoryview(tensor).tobytes()
    return list(struct.unpack(f"{len(body) // struct.calcsize(code)}{code}", body))


class Server:
    """Serves a folder. `before` is called with each path, and gives a status, or `None` for the file."""

    def __init__(self, folder: Path, before: Callable[[str], int | None] = lambda path: None) -> None:
        self.before, self.tag = before, lambda path: f'"{path.stat().st_mtime_ns}"'
        self.log: list[str] = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """One request."""

            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.answer(self, folder)

            def log_message(self, *_: object) -> None:
                """It is quiet."""

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def answer(self, handler: http.server.BaseHTTPRequestHandler, folder: Path) -> None:
        """Sends a file, or a part of one."""
        path = handler.path.split("?")[0].strip("/")
        self.log.append(path)
        file, status = folder / path, self.before(path)
        if status is None and not file.is_file():
            status = 404
        body, tag, size = b"", "", 0
        if status is None:
            body, tag = file.read_bytes(), self.tag(file)
            size = len(body)
            asked = handler.headers.get("If-Match")
            if asked is not None and asked != tag:
                status, body = 412, b""
        asked = handler.headers.get("Range")
        first = 0
        if status is None and asked:
            begin, end = asked.removeprefix("bytes=").split("-")
            first = max(0, size - int(end)) if begin == "" else int(begin)
            body = body[first:] if begin == "" or end == "" else body[first:int(end) + 1]
            status = 206
        try:
            handler.send_response(status or 200)
            if status == 206:
                handler.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{size}")
            if tag:
                handler.send_header("ETag", tag)
            handler.send_header("Last-Modified", handler.date_time_string(time.time()))
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
        except ConnectionError:
            """It was given up."""

    def close(self) -> None:
        """Ends it."""
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


def size(shape: list[int], code: str = "I") -> int:
    """Bytes of an array in memory."""
    return math.prod(shape) * struct.calcsize(code)
