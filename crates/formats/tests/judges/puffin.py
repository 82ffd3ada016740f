"""Reads and writes Puffin deletion vectors with PyIceberg and CRoaring.

puffin.py read FILE             prints {"file": referenced data file, "positions": [...]}, as PyIceberg sees them
puffin.py write FILE JSON       writes a Puffin file with the positions in a file with a JSON array, by CRoaring
"""
import json
import struct
import sys
import warnings
import zlib

from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap64

warnings.simplefilter("ignore")


def read(path):
    with open(path, "rb") as file:
        vectors = deletion_vectors_from_puffin_file(PuffinFile(file.read()))
    assert len(vectors) == 1, vectors
    # to_vector() makes no arrow array where a bucket is empty, so that its bitmaps are read themselves.
    positions = [(key << 32) + position for key, bitmap in enumerate(vectors[0]._bitmaps) for position in bitmap]
    return {"file": vectors[0].referenced_data_file, "positions": positions}


def write(path, positions):
    bitmap = BitMap64(positions)
    bitmap.run_optimize()
    vector = b"\xd1\xd3\x39\x64" + bitmap.serialize()
    blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    footer = json.dumps({"blobs": [{
        "type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": 7, "sequence-number": 3, "offset": 4,
        "length": len(blob), "properties": {"cardinality": str(len(positions)), "referenced-data-file": "s3://b/f"}}]}).encode()
    with open(path, "wb") as file:
        file.write(b"PFA1" + blob + b"PFA1" + footer + struct.pack("<iI", len(footer), 0) + b"PFA1")
    return len(positions)


if __name__ == "__main__":
    command, path = sys.argv[1:3]
    print(json.dumps(read(path) if command == "read" else write(path, json.load(open(sys.argv[3])))))
