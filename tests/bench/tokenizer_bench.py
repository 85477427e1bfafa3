# SPDX-License-Identifier: Apache-2.0
"""Counterpart of tokenizer_bench.cpp for Hugging Face tokenizers (pip install tokenizers).

    tokenizer_bench.py VOCABULARY TEXT [--runs N] [--against PROGRAM]

One thread. With --against, the C++ program and this one take turns, and the best of all turns counts.
"""

import argparse
import os
import re
import subprocess
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Tokenizer  # noqa: E402  (reads the environment)


def measure(vocabulary, text, lines):
    begin = time.perf_counter()
    tokenizer = Tokenizer.from_file(vocabulary)
    opened = time.perf_counter()
    n_ids = len(tokenizer.encode(text, add_special_tokens=False).ids)
    whole = time.perf_counter()
    # A second pass: the library keeps a cache between calls, and short texts meet it warm.
    for line in lines:
        tokenizer.encode(line, add_special_tokens=False)
    many = time.perf_counter()
    return opened - begin, whole - opened, many - whole, n_ids


def measure_peer(program, vocabulary, path):
    out = subprocess.run([program, vocabulary, path, "--runs", "3"], check=True,
                         capture_output=True, text=True).stdout
    open_ms, whole, n_ids, many = re.search(
        r"open ([\d.]+) ms; whole text ([\d.]+) MB/s \((\d+) ids\); \d+ lines ([\d.]+) MB/s", out).groups()
    return float(open_ms), float(whole), float(many), int(n_ids)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("vocabulary")
    parser.add_argument("text")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--against")
    args = parser.parse_args()
    vocabulary = args.vocabulary
    if os.path.isdir(vocabulary):
        vocabulary = os.path.join(vocabulary, "tokenizer.json")
    with open(args.text, "rb") as file:
        data = file.read()
    text = data.decode()
    lines = [line for line in text.split("\n") if line]
    megabytes = len(data) / 1e6
    ours, theirs = [], []
    for _ in range(args.runs):
        theirs.append(measure(vocabulary, text, lines))
        if args.against:
            ours.append(measure_peer(args.against, vocabulary, args.text))
    opened, whole, many = (min(run[i] for run in theirs) for i in range(3))
    print(f"{'':12} {'open ms':>9} {'whole MB/s':>11} {'lines MB/s':>11} {'ids':>9}")
    print(f"{'tokenizers':12} {opened * 1e3:9.1f} {megabytes / whole:11.2f} {megabytes / many:11.2f} {theirs[0][3]:9}")
    if ours:
        print(f"{'libcolibri':12} {min(run[0] for run in ours):9.1f} {max(run[1] for run in ours):11.2f} "
              f"{max(run[2] for run in ours):11.2f} {ours[0][3]:9}")


if __name__ == "__main__":
    main()
