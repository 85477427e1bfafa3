#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Numbers from a file are multiplied by lib/base/checked_math.h alone.

Finds products in the sources that read hostile files (lib/snapshot). A line that may stand has a comment that begins
with "bounded:" on it or above it and says why its product cannot wrap.

    check_products.py ROOT
"""

import glob
import os
import re
import sys

# weight_reader.cpp works on sizes that weight_source.cpp has compared with the file.
# json.cpp multiplies indices of its own tables by 2.
EXEMPT = {"weight_reader.cpp", "hash.h", "json.cpp"}
# A literal on the left is a scale of some digits or bits, which the check of the digits bounds.
PRODUCT = re.compile(r"(?<!\w)(?!\d+ \* |\(8 \* )[\w.\->]*[A-Za-z_>)\]][\w.>)\]]* \* [(\w]")
POINTER = re.compile(r"^\s*(const |static |struct )*[\w:<>]+ \*\w+|[(,] ?(const )?[\w:<>]+ \*\w+|static_cast<[^>]*\*>")


def find_products(path):
    lines = open(path, encoding="utf-8").read().splitlines()
    for i, line in enumerate(lines):
        code = line.split("//")[0]
        if not PRODUCT.search(code) or POINTER.search(code):
            continue
        if "bounded:" in line or (i > 0 and "bounded:" in lines[i - 1]):
            continue
        yield "%s:%d: %s" % (path, i + 1, line.strip())


def main():
    folder = os.path.join(sys.argv[1], "lib", "snapshot")
    paths = [path for path in sorted(glob.glob(os.path.join(folder, "*"))) if os.path.basename(path) not in EXEMPT]
    faults = [fault for path in paths if path.endswith((".cpp", ".h")) for fault in find_products(path)]
    print("\n".join(faults))
    print("%d files, %d unchecked products" % (len(paths), len(faults)))
    return 1 if faults or len(paths) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
