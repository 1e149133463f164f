# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arrays that tensorstore writes, of versions 3 and 2 of the format."""

import unittest

import numpy as np
import tensorstore as ts
from reading import Reading, numbers

SHAPE = (37, 29)
TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
         "float32", "float64", "complex64", "complex128"]
NAMES = ("lz4", "lz4hc", "blosclz", "zlib", "zstd", "snappy")


class Driver(Reading):
    """Writes arrays with a driver of tensorstore."""

    driver = "zarr3"

    def write(self, name, data, metadata, part=..., fill=0):
        """Writes an array, of which a part has elements, and remembers it."""
        spec = {"driver": self.driver, "metadata": {"shape": list(data.shape), **metadata},
                "kvstore": {"driver": "file", "path": f"{self.folder / name}/"}}
        array = ts.open(spec, create=True).result()
        array[part].write(data[part]).result()
        expected = np.full(data.shape, fill, data.dtype)
        expected[part] = data[part]
        self.expected[name] = expected


def sharded(chunk, codecs, **options):
    """A codec of shards."""
    return [{"name": "sharding_indexed",
             "configuration": {"chunk_shape": list(chunk), "codecs": codecs, **options}}]


def three(dtype, chunk, codecs, **options):
    """A description of version 3."""
    return {"data_type": dtype, "codecs": codecs, "chunk_grid": {
        "name": "regular", "configuration": {"chunk_shape": list(chunk)}}, **options}


def encoded(*more, endian="little"):
    """Codecs of a chunk."""
    return [{"name": "bytes", "configuration": {"endian": endian}}, *more]


ZSTD = {"name": "zstd", "configuration": {"level": 3}}
GZIP = {"name": "gzip", "configuration": {"level": 6}}
CRC32C = {"name": "crc32c"}


class ThreeTest(Driver):
    """Version 3."""

    def test_types(self):
        for dtype in TYPES:
            for endian in ("little", "big"):
                codecs = encoded(ZSTD, endian=endian)
                data = numbers(dtype, SHAPE)
                self.write(f"plain/{dtype}/{endian}", data, three(dtype, (10, 7), codecs))
                self.write(f"sharded/{dtype}/{endian}", data,
                           three(dtype, (20, 14), sharded((10, 7), codecs)))

    def test_compressors(self):
        ramp = np.arange(SHAPE[0] * SHAPE[1], dtype="uint32").reshape(SHAPE)
        found = {"none": [], "zstd": [ZSTD], "gzip": [GZIP], "crc32c": [CRC32C],
                 "several": [GZIP, CRC32C, ZSTD]}
        for name in NAMES[:-1]:
            for shuffle in ("noshuffle", "shuffle", "bitshuffle"):
                more = {} if shuffle == "noshuffle" else {"typesize": 4}
                found[f"blosc-{name}-{shuffle}"] = [{"name": "blosc", "configuration": {
                    "cname": name, "clevel": 5, "shuffle": shuffle, "blocksize": 0, **more}}]
        for name, more in found.items():
            self.write(f"plain/{name}", ramp, three("uint32", (10, 7), encoded(*more)))
            self.write(f"sharded/{name}", ramp,
                       three("uint32", (20, 21), sharded((10, 7), encoded(*more))))

    def test_indexes_of_shards(self):
        for place in ("start", "end"):
            for checks in ([], [CRC32C]):
                for endian in ("little", "big"):
                    codec = sharded((5, 7), encoded(ZSTD), index_location=place,
                                    index_codecs=encoded(*checks, endian=endian))
                    self.write(f"{place}{len(checks)}{endian}", numbers("int32", SHAPE),
                               three("int32", (20, 14), codec))

    def test_fill_values_and_chunks_that_are_not_there(self):
        part = (slice(3, 9), slice(12, 18))
        for dtype, told, value in [("uint8", 255, 255), ("float32", "NaN", np.nan),
                                   ("float64", "-Infinity", -np.inf), ("bool", True, True),
                                   ("complex64", [1.5, "Infinity"], complex(1.5, np.inf)),
                                   ("float16", 0.5, 0.5), ("int64", -2**63, -2**63)]:
            data = numbers(dtype, SHAPE)
            for name, chunk, codecs in [("plain", (10, 7), encoded(ZSTD)),
                                        ("sharded", (20, 14), sharded((10, 7), encoded(ZSTD)))]:
                metadata = three(dtype, chunk, codecs, fill_value=told)
                self.write(f"{name}/{dtype}", data, metadata, part, fill=value)
                self.write(f"{name}/{dtype}-none", data, metadata, (slice(0), slice(0)), fill=value)

    def test_transposed(self):
        data = numbers("uint16", (11, 13, 17))
        for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
            codec = {"name": "transpose", "configuration": {"order": order}}
            name = "".join(map(str, order))
            self.write(f"plain/{name}", data, three("uint16", (4, 5, 6), [codec, *encoded(ZSTD)]))
            self.write(f"sharded/{name}", data,
                       three("uint16", (8, 10, 12), sharded((4, 5, 6), [codec, *encoded(ZSTD)])))

    def test_codecs_around_shards(self):
        nested = sharded((10, 14), sharded((5, 7), encoded(ZSTD)))
        self.write("packed", numbers("int32", SHAPE), three("int32", (20, 28), nested))
        # Shards within other codecs are one chunk each, whose parts are not to be packed.
        del self.expected["packed"]
        self.refuses("packed", SHAPE, "unsupported")
        plain = sharded((10, 14), sharded((5, 7), encoded()))
        self.write("plain", numbers("int32", SHAPE), three("int32", (20, 28), plain))
        transposed = [{"name": "transpose", "configuration": {"order": [1, 0]}},
                      *sharded((7, 5), encoded())]
        self.write("transposed", numbers("int32", SHAPE), three("int32", (20, 14), transposed))

    def test_dimensions_and_names_of_chunks(self):
        self.write("none", numbers("float64", ()), three("float64", (), encoded()))
        self.write("empty", numbers("int8", (0, 4)), three("int8", (2, 2), encoded()))
        self.write("five", numbers("int8", (3, 4, 5, 6, 7)),
                   three("int8", (2, 4, 2, 6, 8), sharded((2, 2, 2, 2, 2), encoded(GZIP))))
        for name in ("default", "v2"):
            for separator in "/.":
                key = {"name": name, "configuration": {"separator": separator}}
                self.write(f"{name}{ord(separator)}", numbers("int8", SHAPE),
                           three("int8", (10, 7), encoded(), chunk_key_encoding=key))

    def test_bfloat16(self):
        data = numbers("float32", SHAPE).astype(ts.bfloat16.numpy_dtype)
        self.write("a", data, three("bfloat16", (20, 14), sharded((5, 7), encoded(ZSTD))))


class TwoTest(Driver):
    """Version 2."""

    driver = "zarr"

    def two(self, name, data, part=..., fill=0, **options):
        """Writes an array of version 2."""
        options = {"dtype": data.dtype.str, "chunks": [10, 7], "compressor": None,
                   "dimension_separator": ".", **options}
        self.write(name, data.astype(data.dtype.newbyteorder("=")), options, part, fill)

    def test_types(self):
        for dtype in TYPES:
            for order in "<>":
                swapped = np.dtype(dtype).newbyteorder(order)
                self.two(f"{dtype}{ord(order)}", numbers(dtype, SHAPE).astype(swapped))

    def test_compressors(self):
        ramp = np.arange(SHAPE[0] * SHAPE[1], dtype="uint32").reshape(SHAPE)
        self.two("zstd", ramp, compressor={"id": "zstd", "level": 4})
        self.two("gzip", ramp, compressor={"id": "gzip", "level": 4})
        for name in NAMES[:-1]:
            for shuffle in (0, 1, 2):
                self.two(f"{name}{shuffle}", ramp, compressor={
                    "id": "blosc", "cname": name, "clevel": 5, "shuffle": shuffle})

    def test_fill_values_orders_and_names_of_chunks(self):
        part = (slice(3, 9), slice(12, 18))
        for order in "CF":
            for separator in "./":
                for dtype, told, value in [("float32", "NaN", np.nan), ("float32", 1.5, 1.5),
                                           ("float32", None, 0), ("bool", True, True),
                                           ("complex64", [1.5, "Infinity"], complex(1.5, np.inf))]:
                    self.two(f"{order}{ord(separator)}{dtype}{value}", numbers(dtype, SHAPE), part,
                             fill=value, fill_value=told, order=order,
                             dimension_separator=separator)


if __name__ == "__main__":
    unittest.main()
