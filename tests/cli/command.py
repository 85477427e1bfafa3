# SPDX-License-Identifier: Apache-2.0
#
# Runs the colibri command for the tests of this folder, and names the models they use. No run has
# a terminal, so a successful one must leave stderr empty; that is checked for every run.

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

COMMAND = os.environ["COLIBRI_COMMAND"]
SOURCE = pathlib.Path(os.environ["COLIBRI_SOURCE"])
TINY = SOURCE / "examples/models/colibri-tiny"
TINY_PACKED = SOURCE / "examples/models/colibri-tiny-packed"
TINY_CONTAINER = SOURCE / "tests/data/colibri-tiny-container"
GOLDEN = SOURCE / "tests/golden/data"


def start(*arguments, **options):
    return subprocess.Popen(
        [COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def run_any(*arguments, text=b""):
    """Runs to the end, whatever the exit code."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=300,
        check=False,
    )


def reference(name):
    """One prompt of the BF16 model's reference.json, with what a float32 oracle made of it."""
    prompts = json.loads((TINY / "reference.json").read_text(encoding="utf-8"))["prompts"]
    return next(prompt for prompt in prompts if prompt["name"] == name)


def join(ids):
    return ",".join(map(str, ids))


class CommandTest(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="colibri cli é "))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_well(self, *arguments, text=b""):
        """Runs, demands success and a silent stderr, returns stdout as text."""
        result = run_any(*arguments, text=text)
        self.assertEqual((result.returncode, result.stderr), (0, b""), arguments)
        return result.stdout.decode("utf-8")

    def run_json(self, *arguments, text=b""):
        return json.loads(self.run_well(*arguments, text=text))

    def run_badly(self, code, *arguments):
        """Runs, demands this exit code and one line on stderr, returns the line."""
        result = run_any(*arguments)
        message = result.stderr.decode("utf-8")
        self.assertEqual(result.returncode, code, message)
        self.assertEqual(message.count("\n"), 1, message)
        self.assertTrue(message.startswith("colibri: ") and message.endswith("\n"), message)
        return message

    def copy_model(self, source, name="model", leave_out=()):
        """A copy in this test's own folder, whose path has a space and a letter outside ASCII."""
        target = self.folder / name
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("golden", *leave_out))
        return target
