# SPDX-License-Identifier: Apache-2.0
#
# Every public header alone, twice in one file, as C11 and as C++20, with every compiler of this machine and with warnings as
# errors. Usage: check_headers.py INCLUDE_FOLDER C_COMPILER CXX_COMPILER

import os
import shutil
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]


def compile_source(command, suffix, source):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "alone" + suffix)
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        done = subprocess.run(command + [path], capture_output=True, text=True)
        return "" if done.returncode == 0 else " ".join(command) + "\n" + done.stderr


def main():
    include, c_compiler, cxx_compiler = sys.argv[1:4]
    c_compilers = {shutil.which(name) for name in (c_compiler, "gcc", "clang")} - {None}
    cxx_compilers = {shutil.which(name) for name in (cxx_compiler, "g++", "clang++")} - {None}
    headers = sorted(name for name in os.listdir(os.path.join(include, "colibri")) if name.endswith(".h"))
    faults = []
    for header in headers:
        source = '#include "colibri/%s"\n#include "colibri/%s"\nint colibri_translation_unit;\n' % (header, header)
        for compiler in sorted(c_compilers):
            for extra in ([], ["-Wstrict-prototypes", "-Wc++-compat"]):
                faults.append(compile_source(
                    [compiler, "-std=c11", "-x", "c", "-I", include] + WARNINGS + extra, ".c", source))
        for compiler in sorted(cxx_compilers):
            faults.append(compile_source(
                [compiler, "-std=c++20", "-x", "c++", "-I", include] + WARNINGS, ".cpp", source))
    faults = [fault for fault in faults if fault]
    print("\n".join(faults))
    print("%d headers, %d compilers, %d faults"
          % (len(headers), len(c_compilers) + len(cxx_compilers), len(faults)))
    return 1 if faults or len(headers) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
