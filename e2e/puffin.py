"""Writes and reads Puffin files that hold one deletion vector, from the Iceberg specification.

Only pyroaring is used for the bitmaps, so that these files are an opinion independent of the server's own codec.
"""

from __future__ import annotations

import json
import struct
import zlib

import pyroaring

MAGIC = b"PFA1"
VECTOR_MAGIC = bytes([0xD1, 0xD3, 0x39, 0x64])


def vector(positions) -> bytes:
    """A `deletion-vector-v1` blob: length, magic, 64-bit roaring bitmap, CRC-32."""
    bitmap = pyroaring.BitMap64(positions).serialize()
    body = VECTOR_MAGIC + bitmap
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def file(positions, data_file: str) -> bytes:
    """A whole Puffin file with the vector of `data_file`."""
    positions = sorted(set(positions))
    blob = vector(positions)
    payload = json.dumps(
        {
            "blobs": [
                {
                    "type": "deletion-vector-v1",
                    "fields": [],
                    "snapshot-id": -1,
                    "sequence-number": -1,
                    "offset": len(MAGIC),
                    "length": len(blob),
                    "properties": {"referenced-data-file": data_file, "cardinality": str(len(positions))},
                }
            ],
            "properties": {"created-by": "hoglake e2e"},
        },
        separators=(",", ":"),
    ).encode()
    footer = MAGIC + payload + struct.pack("<I", len(payload)) + bytes(4) + MAGIC
    return MAGIC + blob + footer


def positions(raw: bytes) -> set[int]:
    """The positions in a Puffin file written by `file` or by anyone who follows the specification."""
    assert raw[:4] == MAGIC and raw[-4:] == MAGIC, "not a Puffin file"
    (length,) = struct.unpack("<I", raw[-12:-8])
    footer = json.loads(raw[-12 - length : -12])
    (blob,) = footer["blobs"]
    assert blob["type"] == "deletion-vector-v1"
    bytes_ = raw[blob["offset"] : blob["offset"] + blob["length"]]
    (size,) = struct.unpack(">I", bytes_[:4])
    body = bytes_[4 : 4 + size]
    assert body[:4] == VECTOR_MAGIC and struct.unpack(">I", bytes_[4 + size :])[0] == zlib.crc32(body)
    return set(pyroaring.BitMap64.deserialize(body[4:]))
