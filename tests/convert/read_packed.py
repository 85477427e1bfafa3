# SPDX-License-Identifier: Apache-2.0
#
# The reader that docs/formats.md shows, taken from there, reads a snapshot that the library wrote: every weight must be
# the one that was packed, and the numbers of the page's example must be where it says.
# Usage: read_packed.py WRITER FORMATS_MD, with WRITER the program write_packed_sample.

import json
import os
import re
import struct
import subprocess
import sys
import tempfile


def load_reader(page):
    """The names that the page's Python block defines."""
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1, "%d blocks of Python in the page" % len(blocks)
    names = {}
    exec(compile(blocks[0], "docs/formats.md", "exec"), names)
    return names


def check_weights(reader, tensors, sample):
    """Compares all weights of one matrix; returns how many."""
    tensor = tensors[sample["tensor"]]
    part = tensor[3]["parts"][sample["part"]]
    assert len(sample["weights"]) == part["columns"] * part["depth"], sample["tensor"]
    for index, wanted in enumerate(sample["weights"]):
        column, depth = divmod(index, part["depth"])
        got = reader["weight"](tensor, sample["part"], column, depth, sample["head"])
        assert struct.pack("<f", got) == struct.pack("<f", wanted), \
            (sample["tensor"], sample["part"], sample["head"], column, depth, got, wanted)
    return len(sample["weights"])


def check_example(page, tensors, samples):
    """The bytes that the worked example names hold the weight of its column and depth."""
    value_at, scale_at = (int(number) for number in re.findall(r"\*\*(\d+)\*\*", page)[-2:])
    path, begin, size, _layout = tensors["example"]
    with open(path, "rb") as file:
        file.seek(begin)
        content = file.read(size)
    scale = struct.unpack("<f", b"\0\0" + content[scale_at:scale_at + 2])[0]
    (sample,) = [s for s in samples if s["tensor"] == "example"]
    assert ((content[value_at] >> 4) - 8) * scale == sample["weights"][21 * 100 + 77]
    assert size == 4096 and not any(content[2880:])
    for panel in range(3):
        last_line = content[panel * 832 + 768:panel * 832 + 832]
        assert all(byte >> 4 == 8 for byte in last_line), panel
    for line in range(13):
        assert content[1664 + 64 * line + 32:1664 + 64 * line + 64] == b"\x88" * 32, line


def main():
    writer, page_path = sys.argv[1:]
    with open(page_path, encoding="utf-8") as file:
        page = file.read()
    reader = load_reader(page)
    with tempfile.TemporaryDirectory() as folder:
        snapshot = os.path.join(folder, "sample")
        output = subprocess.run([writer, snapshot], check=True, stdout=subprocess.PIPE).stdout
        samples = json.loads(output)
        tensors = reader["open_snapshot"](snapshot)
        for path, begin, size, layout in tensors.values():
            assert layout is None or begin % 4096 == size % 4096 == 0, path
        n_weights = sum(check_weights(reader, tensors, sample) for sample in samples)
        check_example(page, tensors, samples)
        packed = {name for name, tensor in tensors.items() if tensor[3] is not None}
        assert packed == {sample["tensor"] for sample in samples}
        path, begin, size, layout = tensors["plain"]
        with open(path, "rb") as file:
            file.seek(begin)
            assert layout is None and file.read(size) == struct.pack("<3f", 1.0, 2.0, 3.0)
    formats = {tensors[s["tensor"]][3]["parts"][s["part"]]["format"] for s in samples}
    assert formats == {"f32", "bf16", "f16", "fp8", "int8", "int4", "mxfp4"}, formats
    print("%d weights of %d matrices are as they were packed" % (n_weights, len(samples)))


if __name__ == "__main__":
    main()
