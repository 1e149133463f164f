# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arrays that zarr-python writes, of versions 3 and 2 of the format."""

import json
import unittest
import warnings

import numcodecs
import numpy as np
import zarr
from reading import Reading, numbers
from zarr.codecs import (BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec,
                         TransposeCodec, ZstdCodec)

TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
         "float32", "float64", "complex64", "complex128"]
# The sides of chunks divide none of these.
SHAPE = (37, 29)
NAMES = ("lz4", "lz4hc", "blosclz", "zlib", "zstd")


class Version(Reading):
    """Writes arrays of a version."""

    format = 3

    def write(self, name, data, part=..., **options):
        """Writes an array, of which a part has elements, and remembers it."""
        data = np.asarray(data)
        with warnings.catch_warnings():
            # That no other library has to know some types.
            warnings.simplefilter("ignore")
            options = {"chunks": (10, 7), "fill_value": 0, "dtype": data.dtype, **options}
            if "dimension_names" not in options and self.format == 3 and data.ndim:
                options["dimension_names"] = [f"d{at}" for at in range(data.ndim)]
            array = zarr.create_array(self.folder / name, shape=data.shape,
                                      zarr_format=self.format, **options)
            array[part] = data[part]
        expected = np.full(data.shape, options["fill_value"] or 0, data.dtype)
        expected[part] = data[part]
        self.expected[name] = expected
        return array


class ThreeTest(Version):
    """Version 3."""

    def test_types(self):
        for dtype in TYPES:
            self.write(f"plain/{dtype}", numbers(dtype, SHAPE))
            self.write(f"sharded/{dtype}", numbers(dtype, SHAPE), shards=(20, 14))

    def test_byte_orders(self):
        for endian in ("little", "big"):
            for dtype in ("int16", "uint64", "float32", "complex64"):
                for shards in (None, (20, 14)):
                    name = f"{endian}/{dtype}/{bool(shards)}"
                    self.write(name, numbers(dtype, SHAPE), shards=shards,
                               serializer=BytesCodec(endian=endian))

    def test_compressors(self):
        compressors = {
            "none": None,
            "zstd": ZstdCodec(level=3),
            "zstd-checksum": ZstdCodec(level=0, checksum=True),
            "gzip": GzipCodec(level=6),
            "crc32c": Crc32cCodec(),
            "several": [ZstdCodec(), GzipCodec(), Crc32cCodec()],
            **{f"blosc-{name}-{shuffle}": BloscCodec(cname=name, clevel=5, shuffle=shuffle)
               for name in NAMES for shuffle in ("noshuffle", "shuffle", "bitshuffle")},
        }
        ramp = np.arange(SHAPE[0] * SHAPE[1], dtype="uint32").reshape(SHAPE)
        for name, compressor in compressors.items():
            self.write(f"plain/{name}", ramp, compressors=compressor)
            self.write(f"sharded/{name}", ramp, compressors=compressor, shards=(20, 21))

    def test_fill_values_and_chunks_that_are_not_there(self):
        for dtype, value in [("uint8", 255), ("int16", -7), ("float32", np.nan), ("float64", -np.inf),
                             ("complex64", complex(1.5, -np.inf)), ("bool", True), ("uint64", 2**64 - 1),
                             ("int64", -2**63), ("float16", 0.1)]:
            part = (slice(3, 9), slice(12, 18))
            for shards in (None, (20, 14)):
                name = f"{dtype}/{bool(shards)}"
                self.write(name, numbers(dtype, SHAPE), part, fill_value=value, shards=shards)
            # There is no object at all.
            self.write(f"{dtype}/empty", numbers(dtype, SHAPE), (slice(0), slice(0)), fill_value=value)

    def test_chunks_that_are_fill_value_are_written_if_asked(self):
        for written in (True, False):
            for shards in (None, (20, 14)):
                self.write(f"{written}/{bool(shards)}", np.full(SHAPE, 9, "int32"), fill_value=9,
                           shards=shards, config={"write_empty_chunks": written})

    def test_indexes_of_shards(self):
        for place in ("start", "end"):
            for checks in ([], [Crc32cCodec()]):
                for endian in ("little", "big"):
                    codec = ShardingCodec(chunk_shape=(5, 7), codecs=[BytesCodec(), ZstdCodec()],
                                          index_codecs=[BytesCodec(endian=endian), *checks],
                                          index_location=place)
                    name = f"{place}/{len(checks)}/{endian}"
                    self.write(name, numbers("int32", SHAPE), chunks=(20, 14), serializer=codec,
                               compressors=None)

    def test_codecs_around_shards(self):
        for name, around in {"checked": [Crc32cCodec()], "packed": [ZstdCodec()]}.items():
            codec = ShardingCodec(chunk_shape=(5, 7), codecs=[BytesCodec()])
            with warnings.catch_warnings():
                # That parts of a shard cannot be read alone then.
                warnings.simplefilter("ignore")
                self.write(name, numbers("int32", SHAPE), chunks=(20, 14), serializer=codec,
                           compressors=around)

    def test_transposed(self):
        data = numbers("uint16", (11, 13, 17))
        for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)):
            name = "".join(map(str, order))
            self.write(f"plain/{name}", data, chunks=(4, 5, 6), filters=[TransposeCodec(order=order)])
            self.write(f"sharded/{name}", data, chunks=(4, 5, 6), shards=(8, 10, 12),
                       filters=[TransposeCodec(order=order)])

    def test_dimensions(self):
        self.write("none", numbers("float64", ()), chunks=())
        for shape, chunk, shard in [((1,), (1,), (1,)), ((23,), (5,), (10,)), ((23,), (50,), (100,)),
                                    ((3, 4, 5, 6, 7), (2, 2, 2, 2, 2), (2, 4, 2, 6, 8)),
                                    ((0, 5), (2, 2), (4, 4)), ((1, 1, 9), (1, 1, 2), (1, 1, 4))]:
            name = "x".join(map(str, shape))
            name += "".join(map(str, chunk))
            self.write(f"plain/{name}", numbers("int16", shape), chunks=chunk)
            self.write(f"sharded/{name}", numbers("int16", shape), chunks=chunk, shards=shard)

    def test_names_of_chunks(self):
        for name in ("default", "v2"):
            for separator in ("/", "."):
                key = {"name": name, "separator": separator}
                self.write(f"{name}{ord(separator)}", numbers("int8", SHAPE), chunk_key_encoding=key)

    def test_arrays_in_groups_with_attributes(self):
        group = zarr.open_group(self.folder, mode="w")
        data = numbers("float32", SHAPE)
        array = group.create_group("outer").create_array("inner", shape=SHAPE, dtype="float32",
                                                         chunks=(10, 7))
        array[:] = data
        array.attrs["unit"] = {"of": ["Kelvin", None]}
        self.expected["outer/inner"] = data
        with warnings.catch_warnings():
            # That it is no part of the format.
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(self.folder)

    def test_an_array_at_the_root(self):
        self.write("", numbers("int32", SHAPE), shards=(20, 14))

    def test_arrays_that_are_resized_and_written_again(self):
        array = self.write("a", numbers("int32", SHAPE), shards=(20, 14), fill_value=5)
        array.resize((50, 12))
        array[30:50, 3:12] = 8
        expected = np.full((50, 12), 5, "int32")
        expected[:37, :12] = self.expected["a"][:, :12]
        expected[30:50, 3:12] = 8
        self.expected["a"] = expected

    def test_what_is_not_read_is_told(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            texts = zarr.create_array(self.folder / "texts", shape=(4,), dtype=str, chunks=(2,))
            texts[:] = ["a", "bc", "", "d"]
            nested = ShardingCodec(chunk_shape=(4, 4), codecs=[
                ShardingCodec(chunk_shape=(2, 2), codecs=[BytesCodec(), ZstdCodec()])])
            zarr.create_array(self.folder / "nested", shape=(16, 16), dtype="int32", chunks=(8, 8),
                              serializer=nested, compressors=None)[:] = 3
        self.refuses("texts", (4,), "unsupported")
        self.refuses("nested", (16, 16), "unsupported")
        self.refuses("absent", (4,), "missing")

    def test_objects_that_are_damaged_are_told(self):
        array = self.write("a", numbers("int32", SHAPE), shards=(20, 14))
        shard = self.folder / "a/c/0/0"
        whole = shard.read_bytes()
        for damaged in (b"", whole[:-1], whole[:-20] + b"\0" + whole[-19:]):
            shard.write_bytes(damaged)
            self.refuses("a", (5, 5), "corrupt")
        shard.write_bytes(whole)
        described = self.folder / "a/zarr.json"
        text = described.read_text()
        described.write_text(text[:-9])
        self.refuses("a", (5, 5), "corrupt")
        changed = json.loads(text)
        changed["codecs"].append({"name": "nobody", "configuration": {}})
        described.write_text(json.dumps(changed))
        self.refuses("a", (5, 5), "unsupported")
        described.write_text(text)
        self.assertEqual(array.shape, SHAPE)


class TwoTest(Version):
    """Version 2."""

    format = 2

    def test_types(self):
        for dtype in TYPES:
            for order in "<>":
                swapped = np.dtype(dtype).newbyteorder(order)
                self.write(f"{dtype}{ord(order)}", numbers(dtype, SHAPE).astype(swapped))

    def test_compressors(self):
        ramp = np.arange(SHAPE[0] * SHAPE[1], dtype="uint32").reshape(SHAPE)
        for name, compressor in {
            "none": None, "zstd": numcodecs.Zstd(level=5), "gzip": numcodecs.GZip(level=5),
            **{f"blosc-{name}-{shuffle}": numcodecs.Blosc(name, 5, shuffle)
               for name in NAMES for shuffle in (0, 1, 2)},
        }.items():
            self.write(name, ramp, compressors=compressor)

    def test_fill_values_and_chunks_that_are_not_there(self):
        part = (slice(3, 9), slice(12, 18))
        for dtype, value in [("uint8", 255), ("float32", np.nan), ("int64", -2**63), ("bool", True),
                             ("float64", np.inf), ("int16", None),
                             ("complex64", complex(1.5, -np.inf)), ("complex128", None)]:
            self.write(f"{dtype}-{value}", numbers(dtype, SHAPE), part, fill_value=value)

    def test_orders_and_names_of_chunks(self):
        for order in "CF":
            for separator in "./":
                key = {"name": "v2", "separator": separator}
                self.write(f"{order}{ord(separator)}", numbers("int16", (7, 9, 11)), chunks=(3, 4, 5),
                           order=order, chunk_key_encoding=key)

    def test_dimensions(self):
        self.write("none", numbers("float64", ()), chunks=())
        self.write("one", numbers("int8", (23,)), chunks=(5,))
        self.write("empty", numbers("int8", (0, 4)), chunks=(2, 2))
        self.write("five", numbers("int8", (3, 4, 5, 6, 7)), chunks=(2, 2, 2, 2, 2))

    def test_what_is_not_read_is_told(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, dtype, filters in [("delta", "int32", [numcodecs.Delta("i4")]),
                                         ("texts", "U4", None)]:
                zarr.create_array(self.folder / name, shape=(8,), dtype=dtype, chunks=(4,),
                                  zarr_format=2, filters=filters, compressors=None)
        self.refuses("delta", (8,), "unsupported")
        self.refuses("texts", (8,), "unsupported")


class ConsolidatedTest(Version):
    """Groups that tell of their arrays."""

    more = ("consolidated",)

    def consolidate(self, version):
        """Writes arrays of a version, and takes the files of their own away."""
        zarr.open_group(self.folder, mode="w", zarr_format=version)
        self.format = version
        shards = {"shards": (20, 14)} if version == 3 else {}
        self.write("a", numbers("int32", SHAPE), **shards)
        zarr.create_group(self.folder / "inner", zarr_format=version, attributes={"unit": [None, 1.5]})
        self.write("inner/b", numbers("float64", SHAPE), fill_value=np.nan)
        self.write("inner/c", numbers("uint64", SHAPE), (slice(0), slice(0)), fill_value=2**64 - 1)
        with warnings.catch_warnings():
            # That it is no part of the format.
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(self.folder, zarr_format=version)
        for name in self.expected:
            for own in self.folder.joinpath(name).glob("*z*r*"):
                own.unlink()
        # It came later: its own file tells of it.
        self.write("late", numbers("int16", SHAPE))

    def test_version_3(self):
        self.consolidate(3)
        self.refuses("absent", (4,), "missing")

    def test_version_2(self):
        self.consolidate(2)
        self.refuses("absent", (4,), "missing")

    def test_a_group_that_tells_of_no_arrays(self):
        zarr.open_group(self.folder, mode="w")
        self.write("a", numbers("int32", SHAPE))

    def test_no_group(self):
        self.write("a", numbers("int32", SHAPE))
        self.format = 2
        self.write("b", numbers("int32", SHAPE))

    def test_an_array_at_the_root(self):
        self.write("", numbers("int32", SHAPE), shards=(20, 14))

    def test_a_group_that_is_damaged_is_told(self):
        self.consolidate(3)
        described = self.folder / "zarr.json"
        text = described.read_text()
        described.write_text(text[:-9])
        self.refuses("a", (5, 5), "corrupt")
        described.write_text(text)


if __name__ == "__main__":
    unittest.main()
