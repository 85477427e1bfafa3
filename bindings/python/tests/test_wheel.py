# SPDX-License-Identifier: Apache-2.0
"""The wheel: what is in it, that it is the same each time, and three lines that use it."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import SOURCE

import colibri

BUILDER = SOURCE / "bindings/python/build_wheel.py"
TOOLS = ["patchelf", "readelf", "ldd"]
pytestmark = [
    pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {', '.join(TOOLS)}"),
    pytest.mark.skipif(
        colibri.library_path().parent.name == "_native", reason="the library is a wheel's already"
    ),
]

THREE_LINES = """
import colibri
for piece in colibri.stream("Once upon a time", max_tokens=20):
    print(piece, end="", flush=True)
"""


def build(folder):
    command = [sys.executable, BUILDER, "--library", colibri.library_path(), "--output", folder]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return folder / output.strip().rsplit("/", 1)[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("wheel"))


def test_the_name_says_where_it_runs(wheel):
    pattern = r"colibri-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl"
    assert re.fullmatch(pattern, wheel.name)


def test_the_same_inputs_give_the_same_bytes(wheel, tmp_path):
    assert build(tmp_path).read_bytes() == wheel.read_bytes()


def test_library_model_types_and_licences_are_inside(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "colibri/_native/libcolibri.so.0" in names
    assert "colibri/models/colibri-tiny-packed/config.json" in names
    assert "colibri/py.typed" in names
    assert any(re.fullmatch(r"colibri/_native/libtbb-[0-9a-f]{8}\.so\.12", name) for name in names)
    assert sum("/licenses/" in name for name in names) >= 2
    assert not any(name.endswith(".pyc") for name in names)


def test_nothing_is_needed_but_the_system_and_what_is_inside(wheel, tmp_path):
    spec = importlib.util.spec_from_file_location("build_wheel", BUILDER)
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    zipfile.ZipFile(wheel).extractall(tmp_path)
    native = tmp_path / "colibri/_native"
    inside = {path.name for path in native.iterdir()}
    for path in native.iterdir():
        assert set(builder.needed(path)) <= inside | builder.SYSTEM
        assert "$ORIGIN" in builder.run("readelf", "--dynamic", "--wide", path)


@pytest.mark.skipif(
    importlib.util.find_spec("ensurepip") is None, reason="python3-venv is not installed"
)
def test_three_lines_give_text_in_a_fresh_environment(wheel, tmp_path):
    own = {"COLIBRI_LIBRARY", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV"}
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment["PATH"] = "/usr/bin:/bin"
    python = tmp_path / "fresh/bin/python"
    run = {"check": True, "capture_output": True, "text": True, "env": environment, "cwd": "/"}
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "fresh"], **run)
    pip = [python, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel], **run)
    result = subprocess.run([python, "-W", "error", "-c", THREE_LINES], **run)
    assert result.stdout.startswith(", there was")
    assert result.stderr == ""
    show = "import colibri; print(colibri.library_path())"
    place = subprocess.run([python, "-c", show], **run).stdout
    assert place.startswith(str((tmp_path / "fresh").resolve()))
