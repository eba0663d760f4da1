"""Frames that one thread writes while another reads them."""

import subprocess
import sys

import pytest

SHARED = """\
import io
import sys

import polars as pl

from headrace.core.exchange.batch_codec import write_batch
from headrace.core.types.frames import write_arrow
from headrace.state.memory.frame_blobs import encode_frame

frame = pl.DataFrame({"id": [1, 2], "texts": [["a"], ["b"]]})


class ReadingFile(io.BytesIO):
    def write(self, data):
        assert frame.get_column("id").sum() == 3
        return super().write(data)


io.BytesIO = ReadingFile
{"write_arrow": write_arrow, "write_batch": write_batch}[sys.argv[1]](frame, ReadingFile())
encode_frame(frame)
"""
"""Reads the frame when it is being written; without a lock of its own, it waits for itself."""


@pytest.mark.parametrize("function", ["write_arrow", "write_batch"])
def test_a_frame_can_be_read_while_it_is_written(function: str) -> None:
    subprocess.run([sys.executable, "-c", SHARED, function], check=True, timeout=60)
