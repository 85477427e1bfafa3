# SPDX-License-Identifier: Apache-2.0
#
# Readers of the two array files that the tests compare: .npy and safetensors, float32 and int64
# only.

import array
import ast
import json
import struct


def read_npy(path):
    """(shape, values) of a two-dimensional float32 .npy file; checks every part of its form."""
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack("<H", data[8:10])
    begin = 10 + length
    assert (
        begin % 64 == 0 and data[begin - 1 : begin] == b"\n"
    ), "the header is not padded to 64 bytes"
    header = ast.literal_eval(data[10:begin].decode("ascii"))
    assert header["descr"] == "<f4" and header["fortran_order"] is False, header
    values = array.array("f", data[begin:])
    assert len(values) == header["shape"][0] * header["shape"][1], header
    return header["shape"], values


def read_safetensors(path, name):
    """(shape, values) of one tensor."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8 : 8 + length])[name]
    begin, end = (8 + length + offset for offset in entry["data_offsets"])
    return entry["shape"], array.array({"F32": "f", "I64": "q"}[entry["dtype"]], data[begin:end])


def largest_difference(left, right):
    assert len(left) == len(right), (len(left), len(right))
    return max(abs(x - y) for x, y in zip(left, right))
