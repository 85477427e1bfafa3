#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# What int8 activations cost: logits of the same INT4 model with float and with int8 activations,
# compared position by position over the first windows of a text. Prints one table;
# docs/accuracy.md holds its results.
#
#     activation_cost.py COMMAND MODEL TEXT [N_WINDOWS]

import array
import json
import math
import pathlib
import subprocess
import sys
import tempfile

WINDOW = 512


def run(*arguments):
    return subprocess.run(list(map(str, arguments)), stdout=subprocess.PIPE, check=True).stdout


def read_rows(path):
    """Rows of a float32 .npy file of two dimensions."""
    data = path.read_bytes()
    header = data[10 : 10 + int.from_bytes(data[8:10], "little")].decode("ascii")
    width = int(header.split("'shape': (")[1].split(")")[0].split(",")[1])
    values = array.array("f", data[10 + len(header) :])
    return [values[i : i + width] for i in range(0, len(values), width)]


def log_probabilities(row):
    largest = max(row)
    total = math.log(math.fsum(math.exp(x - largest) for x in row)) + largest
    return [x - total for x in row]


def cosine(left, right):
    return (
        math.sumprod(left, right)
        if hasattr(math, "sumprod")
        else sum(map(float.__mul__, left, right))
    ) / (math.dist(left, [0.0] * len(left)) * math.dist(right, [0.0] * len(right)))


def main():
    command, model, text = sys.argv[1:4]
    n_windows = int(sys.argv[4]) if len(sys.argv) > 4 else 8
    ids = json.loads(run(command, "tokenize", model, "--file", text, "--special", "--json"))["ids"]
    cosines, divergences, n_agree = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        for window in range(n_windows):
            part = ",".join(map(str, ids[window * WINDOW : (window + 1) * WINDOW]))
            rows = {}
            for kind in ["float", "int8"]:
                out = pathlib.Path(folder) / f"{kind}.npy"
                run(command, "logits", model, "--ids", part, "--out", out, "--activations", kind)
                rows[kind] = read_rows(out)
            for exact, rounded in zip(rows["float"], rows["int8"]):
                cosines.append(cosine(exact, rounded))
                p, q = log_probabilities(exact), log_probabilities(rounded)
                divergences.append(math.fsum(math.exp(x) * (x - y) for x, y in zip(p, q)))
                n_agree += exact.index(max(exact)) == rounded.index(max(rounded))
    n = len(cosines)
    divergences.sort()
    print(f"positions        {n}")
    print(f"cosine           mean {math.fsum(cosines) / n:.6f}  least {min(cosines):.6f}")
    print(
        f"KL(float||int8)  mean {math.fsum(divergences) / n:.3e}  "
        f"99th percentile {divergences[n * 99 // 100]:.3e}  largest {divergences[-1]:.3e}"
    )
    print(f"top-1 agreement  {100 * n_agree / n:.2f} %")


if __name__ == "__main__":
    main()
