# SPDX-License-Identifier: Apache-2.0
"""The demonstration model for the tests, and programs that run on their own.

The library is found as by every user: COLIBRI_LIBRARY, the package, the system's loader.
"""

import pathlib
import subprocess
import sys

import pytest

import colibri

SOURCE = pathlib.Path(__file__).resolve().parents[3]
TINY = SOURCE / "examples/models/colibri-tiny"
TINY_PACKED = SOURCE / "examples/models/colibri-tiny-packed"
WINDOWED = SOURCE / "tests/golden/data/gpt_oss"
STORY = "Once upon a time, there was a little"


@pytest.fixture
def model():
    options = {"n_threads": 2, "n_slots": 3, "n_engines": 3, "context_tokens": 512}
    with colibri.Model(TINY_PACKED, max_logits_rows=32, **options) as it:
        yield it


@pytest.fixture
def ids(model):
    return colibri.encode_prompt(model.tokenizer, STORY)


def greedy(model, prompt_ids, n_tokens):
    """What the model goes on with, from a scheduler of its own."""
    with model.scheduler(n_slots=1) as scheduler:
        scheduler.submit(prompt_ids, max_tokens=n_tokens, ignore_model_stops=True)
        return [event.token for event in scheduler.run() if event.token is not None]


def start_program(text, *arguments):
    """Starts a Python program that sees the same package; MODEL is the path of the model."""
    head = f"import colibri\nMODEL = {str(TINY_PACKED)!r}\n"
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", head + text, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_program(text, *arguments):
    """Runs such a program; demands exit code 0 and a silent stderr; returns its stdout."""
    with start_program(text, *arguments) as process:
        output, complaint = process.communicate(timeout=120)
    assert (process.returncode, complaint) == (0, "")
    return output
