# SPDX-License-Identifier: Apache-2.0
#
# Who may include whom (docs/architecture.md has the table in words): reads every #include line and fails on an edge that
# is not allowed. Usage: check_includes.py ROOT

import os
import re
import sys

LIB = ["base", "snapshot", "tokenizer", "backend", "residency", "convert", "model", "runtime", "capi"]

# Folder to the folders of ours that it may include, itself left out.
ALLOWED = {
    "include/colibri": [],
    "lib/base": [],
    "lib/snapshot": ["lib/base"],
    "lib/tokenizer": ["lib/base", "lib/snapshot"],
    "lib/backend": ["lib/base"],
    "cpu": ["lib/backend", "lib/base"],
    "lib/residency": ["lib/base", "lib/snapshot", "lib/backend"],
    "lib/convert": ["lib/base", "lib/snapshot", "lib/residency"],
    "lib/model": ["lib/base", "lib/snapshot", "lib/backend", "lib/residency"],
    "lib/runtime": ["lib/base", "lib/backend", "lib/residency", "lib/model", "lib/tokenizer"],
    "lib/capi": ["include/colibri"] + ["lib/" + name for name in LIB],
    "examples": ["include/colibri"],
    "bindings": ["include/colibri"],
}
EVERYTHING = list(ALLOWED)
# Folders of tests that mirror no folder of sources.
SPECIAL_TESTS = {"tests/golden": EVERYTHING, "tests/fuzz": EVERYTHING, "tests/bench": EVERYTHING,
                 "tests/abi": EVERYTHING, "tests/support": EVERYTHING, "tests/cli": ["include/colibri"]}
# One file each that may do what its folder may not.
EXTRA_EDGES = {"lib/capi/backends.cpp": ["cpu"]}
# Of tests/capi only these look behind the public headers.
INSIDE_TESTS = {"budget_test.cpp", "guard_test.cpp", "handles_test.cpp", "sized_struct_test.cpp"}

# Fixtures that several folders of tests use, beside tests/support.
SHARED_FIXTURES = {"tests/golden/engine.h", "tests/base/allocation_counter.h", "tests/base/temporary_folder.h",
                   "tests/snapshot/fixture.h", "tests/snapshot/packed_shard.h", "tests/snapshot/packed_model.h"}

# Outside libraries and the only files that may include them.
LIBRARIES = [
    (r"nlohmann/", r"lib/snapshot/json[a-z_]*\.cpp"),
    (r"(oneapi/)?tbb/", r"lib/base/parallel\.cpp"),
    (r"xxhash\.h", r"lib/base/checksum\.cpp"),
    (r"(pcre2|utf8proc)\.h", r"(lib|tests)/tokenizer/.*"),
    (r"catch2/", r"tests/support/catch(_main)?\.(h|cpp)"),
    (r"CLI/", r"examples/colibri/.*"),
    (r"(immintrin|cpuid)\.h", r"(cpu/.*_(avx2|avx512)\.(h|cpp)|cpu/cpu_features\.cpp|tests/.*)"),
    (r"xmmintrin\.h", r"(lib/base/float_mode\.cpp|tests/.*)"),
    (r"(unistd|fcntl|dirent|sched|signal|pthread|dlfcn|poll)\.h|sys/.*|linux/.*",
     r"(.*_posix\.cpp|(examples|tests)/.*)"),
]
C11_HEADERS = {"stddef.h", "stdint.h"}
# Kernels are compiled with instruction-set flags: no header with inline functions of others.
KERNEL_FILE = re.compile(r"cpu/.*_(avx2|avx512)\.(h|cpp)$")
KERNEL_INCLUDES = re.compile(
    r"<(stddef|stdint|immintrin)\.h>|\"cpu/(kernels|[a-z_]+_(avx2|avx512))\.h\"")

INCLUDE = re.compile(r"^\s*#\s*include\s*([<\"][^>\"]+[>\"])")


def folder_of(path):
    """The folder of the table that a path relative to the root is in, or None."""
    parts = path.split("/")
    for depth in (2, 1):
        name = "/".join(parts[:depth])
        if name in ALLOWED or (depth == 2 and parts[0] == "tests" and len(parts) > 2):
            return name
    return None


def allowed_folders(path):
    folder = folder_of(path)
    if folder in ALLOWED:
        return ALLOWED[folder] + [folder] + EXTRA_EDGES.get(path, [])
    if folder in SPECIAL_TESTS:
        return SPECIAL_TESTS[folder] + [folder, "tests/support"]
    mirrored = "cpu" if folder == "tests/cpu" else "lib/" + folder.split("/")[1]
    if folder == "tests/capi" and path.split("/")[-1] not in INSIDE_TESTS:
        return ["include/colibri", folder, "tests/support"]
    return ALLOWED[mirrored] + [mirrored, folder, "tests/support"]


def check_own(path, name, root):
    """An include in quotes, or of a public header in angle brackets."""
    if ".." in name.split("/"):
        return "uses '..'"
    target = "include/" + name if name.startswith("colibri/") else name
    if not os.path.exists(os.path.join(root, target)):
        return "names no file of the tree"
    is_shared = path.startswith("tests/") and target in SHARED_FIXTURES
    if not is_shared and folder_of(target) not in allowed_folders(path):
        return "is an edge from %s to %s" % (folder_of(path), folder_of(target))
    return None


def check_outside(path, name):
    if path.startswith("include/colibri/") and name not in C11_HEADERS:
        return "is not in the list of C11 headers"
    for library, files in LIBRARIES:
        if re.fullmatch(library + (".*" if library.endswith("/") else ""), name):
            if not re.fullmatch(files, path):
                return "belongs into %s alone" % files
    return None


def check_file(path, root):
    faults = []
    with open(os.path.join(root, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            spelled = found.group(1)
            name = spelled[1:-1]
            is_own = spelled[0] == '"' or name.startswith("colibri/")
            fault = check_own(path, name, root) if is_own else check_outside(path, name)
            if fault is None and KERNEL_FILE.match(path) and not KERNEL_INCLUDES.match(spelled):
                fault = "is not allowed in a kernel file"
            if fault is not None:
                faults.append("%s:%d: %s %s" % (path, number, spelled, fault))
    return faults


def list_sources(root):
    for top in ("include", "lib", "cpu", "cuda", "examples", "bindings", "tests"):
        for directory, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith((".h", ".c", ".cpp", ".cu", ".inc")):
                    yield os.path.relpath(os.path.join(directory, name), root)


def main():
    root = sys.argv[1]
    paths = list(list_sources(root))
    faults = [fault for path in paths for fault in check_file(path, root)]
    print("\n".join(faults))
    print("%d files, %d forbidden includes" % (len(paths), len(faults)))
    return 1 if faults or len(paths) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
