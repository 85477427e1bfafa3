# SPDX-License-Identifier: Apache-2.0
"""Finding the library, its ABI number, and its whole interface."""

import ctypes
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import SOURCE, run_program

import colibri
from colibri import _library, _structs

PACKAGE = SOURCE / "bindings/python/src/colibri"
NUMBERS = {
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "uint8_t": ctypes.c_uint8,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "colibri_status": ctypes.c_int32,
    "colibri_step_mode": ctypes.c_int32,
    "colibri_request_id": ctypes.c_uint64,
}
HANDLES = ["model", "tokenizer", "stream_decoder", "kv_slot", "batch", "scheduler"]


def read_lines(path):
    return (SOURCE / path).read_text(encoding="utf-8").splitlines()


def test_every_exported_function_has_a_prototype():
    assert sorted(_library.PROTOTYPES) == read_lines("tests/abi/exported_symbols.txt")


def test_every_exported_function_is_called_by_the_package():
    text = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.glob("*.py"))
    called = set(re.findall(r"(?:library\(\)|loaded)\.(colibri_\w+)", text))
    assert called == set(_library.PROTOTYPES)


def c_type(text):
    """The ctypes type of a C type as the headers write it."""
    words = text.replace("*", " * ").split()
    stars = words.count("*")
    base = next(word for word in words if word not in ("const", "*"))
    if base == "void" and stars == 0:
        return None
    if base in [f"colibri_{name}" for name in HANDLES] + ["void"]:
        kind, stars = ctypes.c_void_p, stars - 1
    elif base == "char":
        kind, stars = (ctypes.c_void_p, 1) if stars == 2 else (ctypes.c_char_p, 0)
    elif base == "colibri_progress_fn":
        kind = _structs.ProgressFunction
    elif base in NUMBERS:
        kind = NUMBERS[base]
    else:
        mirrors = {kind.__name__.lower(): kind for kind in _structs.Mirror.__subclasses__()}
        name = base.replace("colibri_", "").replace("_", "")
        kind = mirrors.get(name) or mirrors[name + "struct"]
    for _ in range(stars):
        kind = ctypes.POINTER(kind)
    return kind


@pytest.mark.parametrize("line", read_lines("tests/abi/signatures.txt"))
def test_prototypes_are_those_of_the_headers(line):
    result, name, arguments = re.fullmatch(r"(.*?)(colibri_\w+)\((.*)\)", line).groups()
    kinds = [] if arguments == "void" else [re.sub(r"\w+$", "", a) for a in arguments.split(", ")]
    assert _library.PROTOTYPES[name] == (c_type(result), [c_type(kind) for kind in kinds])


def test_version_and_names_come_from_the_library():
    assert colibri.version() == colibri.__version__
    assert colibri.abi_version() == _library.ABI_VERSION
    assert colibri.status_name(-40) == "COLIBRI_E_IO"
    assert colibri.status_name(-12345) == "COLIBRI_E_UNKNOWN"
    assert colibri.status_text(-21).endswith(".") or colibri.status_text(-21)


def test_path_of_the_library_is_a_file():
    assert colibri.library_path().is_file()


def run_with(text, library):
    environment = {**os.environ, "COLIBRI_LIBRARY": str(library)}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


REPORT = """
import colibri
try:
    colibri.version()
except colibri.LoadError as error:
    print(error)
"""


def test_a_named_library_that_is_not_there_is_an_error_at_first_use(tmp_path):
    result = run_with(REPORT, tmp_path / "nothing.so")
    assert (result.returncode, result.stderr) == (0, "")
    assert "nothing.so" in result.stdout and "COLIBRI_LIBRARY" in result.stdout


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("unsigned colibri_abi_version(void) { return 7; }", "has ABI 7; this package needs ABI 0"),
        ("unsigned colibri_abi_version(void) { return 0; }", "colibri_version"),
        ("int nothing;", "colibri_abi_version"),
    ],
)
def test_a_library_that_does_not_fit_is_refused(tmp_path, source, complaint):
    (tmp_path / "other.c").write_text(source, encoding="utf-8")
    other = tmp_path / "other.so"
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "other.c", "-o", other], check=True)
    result = run_with(REPORT, other)
    assert (result.returncode, result.stderr) == (0, "")
    assert complaint in result.stdout


def test_the_package_comes_before_the_loader_and_the_environment_before_both(tmp_path, monkeypatch):
    monkeypatch.delenv("COLIBRI_LIBRARY", raising=False)
    monkeypatch.setattr(_library, "__file__", str(tmp_path / "_library.py"))
    assert _library._find() == "libcolibri.so.0"
    (tmp_path / "_native").mkdir()
    (tmp_path / "_native/libcolibri.so.0").touch()
    assert _library._find() == str(tmp_path / "_native/libcolibri.so.0")
    monkeypatch.setenv("COLIBRI_LIBRARY", "/elsewhere/libcolibri.so")
    assert _library._find() == "/elsewhere/libcolibri.so"


def test_nothing_depends_on_the_working_directory():
    program = """
import os
os.chdir("/")
with colibri.Model(MODEL) as model:
    print(len(model.generate("A", max_tokens=3).tokens))
"""
    assert run_program(program) == "3\n"


def test_the_package_needs_the_standard_library_alone():
    names = run_program("import sys; print(*sys.modules)").split()
    assert not {"numpy", "typing_extensions", "pytest"} & set(names)
