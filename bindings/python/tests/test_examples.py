# SPDX-License-Identifier: Apache-2.0
"""The examples run and say what they should."""

import subprocess
import sys

import pytest
from conftest import SOURCE, TINY_PACKED

EXAMPLES = SOURCE / "bindings/python/examples"
EXPECTED = {
    "minimal.py": ", there was",
    "logits.py": "' ",
    "asyncio_server.py": "Who are you? I am a tiny demonstration model that runs in libcolibri.",
}


def test_every_example_is_run():
    assert sorted(EXPECTED) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name):
    command = [sys.executable, "-W", "error", EXAMPLES / name, TINY_PACKED]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert EXPECTED[name] in result.stdout
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < 150
