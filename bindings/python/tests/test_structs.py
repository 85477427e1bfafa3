# SPDX-License-Identifier: Apache-2.0
"""The mirrors against the headers: sizes and offsets as a C compiler has them, and constants.

Structs and fields are read from the headers by the script that also guards the stored layout, so
nothing can be forgotten.
"""

import ctypes
import importlib.util
import os
import re
import shutil

import pytest
from conftest import SOURCE

import colibri
from colibri import _structs

HEADERS = SOURCE / "include/colibri"
COMPILER = os.environ.get("CC") or shutil.which("cc")


def load_layout_script():
    path = SOURCE / "tests/abi/check_struct_layout.py"
    spec = importlib.util.spec_from_file_location("check_struct_layout", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LAYOUT = load_layout_script()


def c_name(mirror):
    name = re.sub(r"Struct$", "", mirror.__name__)
    return "colibri_" + re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


MIRRORS = {c_name(mirror): mirror for mirror in _structs.Mirror.__subclasses__()}


def describe(name, mirror):
    yield f"{name} size {ctypes.sizeof(mirror)}"
    for field, *_ in mirror._fields_:
        place = getattr(mirror, field)
        yield f"{name}.{field} offset {place.offset} size {place.size}"


def test_every_struct_of_the_headers_has_a_mirror():
    assert sorted(MIRRORS) == sorted(LAYOUT.read_structs(str(SOURCE / "include")))


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_sizes_and_offsets_are_those_of_the_compiler():
    include = str(SOURCE / "include")
    expected = LAYOUT.measure(include, COMPILER, LAYOUT.read_structs(include)).splitlines()
    found = [line for name, mirror in MIRRORS.items() for line in describe(name, mirror)]
    assert sorted(found) == sorted(expected)
    assert len(expected) > 200


def test_sizes_and_offsets_are_the_stored_ones():
    stored = (SOURCE / "tests/abi/struct_layout.txt").read_text(encoding="utf-8").splitlines()
    found = [line for name, mirror in MIRRORS.items() for line in describe(name, mirror)]
    assert sorted(found) == sorted(stored)


def header_constants():
    """Numbers of all #define COLIBRI_... lines."""
    constants = {}
    pattern = re.compile(r"^#define COLIBRI_(\w+) \(?(-?\d+)u?\)?(?:\s|$)", re.M)
    for path in sorted(HEADERS.glob("*.h")):
        for name, value in pattern.findall(path.read_text(encoding="utf-8")):
            constants[name] = int(value)
    return constants


def python_constants():
    groups = {
        "ACTIVATIONS": colibri.Activations,
        "KV": colibri.KvType,
        "LOG": colibri.LogLevel,
        "LOGITS": colibri.Logits,
        "EVENT": colibri.EventKind,
        "FINISH": colibri.Finish,
        "ROLE": colibri.Role,
        "WEIGHTS": colibri.Weights,
        "SCALES": colibri.Scales,
        "MATRIX": colibri.Matrix,
    }
    for group, enumeration in groups.items():
        for member in enumeration:
            yield f"{group}_{member.name}", member.value
    for kind in colibri.ColibriError.__subclasses__():
        yield kind.name.replace("COLIBRI_", ""), kind.status
    major, minor, patch = map(int, colibri.__version__.split("."))
    yield from {"VERSION_MAJOR": major, "VERSION_MINOR": minor, "VERSION_PATCH": patch}.items()
    yield "ABI_VERSION", colibri._library.ABI_VERSION
    yield "STEP_NOWAIT", colibri.scheduler._NOWAIT
    yield "CHAT_NO_GENERATION_PROMPT", colibri.tokenizer._NO_GENERATION_PROMPT
    yield "CHAT_THINKING", colibri.tokenizer._THINKING


# An argument that is a bool in Python; the wait of a step, which is Python's own; success.
NOT_MIRRORED = {"CONTROL_PLAIN", "CONTROL_ALLOWED", "STEP_WAIT", "OK"}


def test_constants_are_those_of_the_headers():
    expected = header_constants()
    for name in NOT_MIRRORED:
        del expected[name]
    assert dict(python_constants()) == expected
