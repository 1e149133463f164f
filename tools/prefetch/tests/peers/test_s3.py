# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arrays in a store that speaks as S3 does (moto)."""

import logging
import os
import unittest
from unittest import mock

import boto3
import numpy as np
import zarr
from moto.server import ThreadedMotoServer
from obstore.store import S3Store
from reading import Reading, numbers
from zarr.storage import ObjectStore

SHAPE = (37, 29)


class S3Test(Reading):
    """A bucket, written by zarr-python over obstore."""

    place = "s3://arrays"

    @classmethod
    def setUpClass(cls):
        # Its requests would stand among the results.
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        cls.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        cls.server.start()
        cls.addClassCleanup(cls.server.stop)
        host, port = cls.server.get_host_and_port()
        # They are for the reader, too.
        environment = {"AWS_ENDPOINT": f"http://{host}:{port}", "AWS_ALLOW_HTTP": "true",
                       "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
                       "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
        cls.enterClassContext(mock.patch.dict(os.environ, environment))
        cls.client = boto3.client("s3", endpoint_url=environment["AWS_ENDPOINT"])
        cls.client.create_bucket(Bucket="arrays")

    def write(self, name, data, part=..., **options):
        """Writes an array, of which a part has elements, and remembers it."""
        store = ObjectStore(S3Store("arrays", prefix=name))
        array = zarr.create_array(store, shape=data.shape, dtype=data.dtype, chunks=(10, 7),
                                  fill_value=3, **options)
        array[part] = data[part]
        self.expected[name] = np.full(data.shape, 3, data.dtype)
        self.expected[name][part] = data[part]

    def test_arrays(self):
        self.write("plain", numbers("int32", SHAPE))
        self.write("sharded", numbers("int32", SHAPE), shards=(20, 14))
        self.write("two", numbers("int32", SHAPE), zarr_format=2)

    def test_objects_that_are_not_there(self):
        part = (slice(3, 9), slice(12, 18))
        self.write("part/plain", numbers("int16", SHAPE), part)
        self.write("part/sharded", numbers("int16", SHAPE), part, shards=(20, 14))
        self.refuses("absent", (4,), "missing")

    def test_objects_that_are_damaged(self):
        self.write("damaged", numbers("int32", SHAPE), shards=(20, 14))
        del self.expected["damaged"]
        for body in (b"", b"short", bytes(500)):
            self.client.put_object(Bucket="arrays", Key="damaged/c/0/0", Body=body)
            self.refuses("damaged", (5, 5), "corrupt")

    def test_a_bucket_that_is_not_there(self):
        with mock.patch.object(S3Test, "place", "s3://nobody"):
            self.refuses("a", (4,), "missing")


if __name__ == "__main__":
    unittest.main()
