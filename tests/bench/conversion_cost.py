#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# What converting a float model costs: for every group and way of finding scales the relative error
# of the weights, the perplexity of a text, and how far the next-token distributions move from those
# of the source over the first windows of that text. Float activations, so that nothing else is
# measured. Prints one table; docs/accuracy.md holds its results.
#
#     conversion_cost.py COMMAND MODEL TEXT [N_WINDOWS]

import json
import math
import pathlib
import sys
import tempfile

from activation_cost import WINDOW, log_probabilities, read_rows, run

VARIANTS = [
    [f"--group={group}", f"--scales={scales}", f"--experts={experts}"]
    for experts in ["int4", "keep"]
    for group in [32, 64, 128]
    for scales in ["absmax", "search"]
    if experts == "int4" or (group, scales) == (64, "search")
]


def read_windows(command, model, parts, folder):
    for part in parts:
        out = pathlib.Path(folder) / "logits.npy"
        run(command, "logits", model, "--ids", part, "--out", out, "--activations", "float")
        yield [log_probabilities(row) for row in read_rows(out)]


def divergence(p, q):
    return math.fsum(math.exp(x) * (x - y) for x, y in zip(p, q))


def main():
    command, source, text = sys.argv[1:4]
    n_windows = int(sys.argv[4]) if len(sys.argv) > 4 else 16
    ids = json.loads(run(command, "tokenize", source, "--file", text, "--special", "--json"))["ids"]
    parts = [
        ",".join(map(str, ids[i * WINDOW : (i + 1) * WINDOW])) for i in range(n_windows)
    ]

    def perplexity(model):
        flags = ["--window", WINDOW, "--activations", "float", "--json"]
        return json.loads(run(command, "perplexity", model, "--text", text, *flags))["perplexity"]

    with tempfile.TemporaryDirectory() as folder:
        exact = list(read_windows(command, source, parts, folder))
        exact_perplexity = perplexity(source)
        print(f"source: perplexity {exact_perplexity:.5f}")
        for number, flags in enumerate(VARIANTS):
            packed = pathlib.Path(folder) / str(number)
            report = json.loads(run(command, "convert", source, packed, *flags, "--json"))
            sums, n = [], 0
            for before, after in zip(exact, read_windows(command, packed, parts, folder)):
                sums.append(math.fsum(divergence(p, q) for p, q in zip(before, after)))
                n += len(before)
            measured = perplexity(packed)
            print(
                f"{' '.join(flags)}: relative error {report['relative_error']:.5f}  "
                f"perplexity {measured:.5f} ({100 * (measured / exact_perplexity - 1):+.3f} %)  "
                f"KL {math.fsum(sums) / n:.3e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
