# SPDX-License-Identifier: Apache-2.0
#
# Installs the library into a folder of its own and builds the C program of tests/capi twice against what lies there: through
# pkg-config and through the CMake package. Both must generate text.
# Usage: check_install.py CMAKE BUILD ROOT C_COMPILER

import os
import shutil
import subprocess
import sys
import tempfile

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(client LANGUAGES C)
find_package(colibri %s REQUIRED)
add_executable(client client.c)
target_link_libraries(client PRIVATE colibri::colibri)
"""


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit("%s\n%s" % (" ".join(command), done.stdout))
    return done.stdout


def find(folder, name):
    for directory, _, names in os.walk(folder):
        if name in names:
            return directory
    sys.exit("%s is not installed" % name)


def main():
    cmake, build, root, compiler = sys.argv[1:5]
    model = os.path.join(root, "examples/models/colibri-tiny-packed")
    source = os.path.join(root, "tests/capi/c_client.c")
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "usr")
        run(cmake, "--install", build, "--component", "library", "--prefix", prefix)
        library = find(prefix, "libcolibri.so")

        environment = dict(os.environ, PKG_CONFIG_PATH=find(prefix, "colibri.pc"))
        flags = run("pkg-config", "--cflags", "--libs", "colibri", env=environment).split()
        version = run("pkg-config", "--modversion", "colibri", env=environment).strip()
        by_pkg_config = os.path.join(folder, "by_pkg_config")
        run(compiler, "-std=c11", source, "-o", by_pkg_config, "-Wl,-rpath," + library, *flags)

        project = os.path.join(folder, "project")
        os.mkdir(project)
        shutil.copy(source, os.path.join(project, "client.c"))
        with open(os.path.join(project, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(PROJECT % version)
        by_cmake = os.path.join(project, "build")
        run(cmake, "-S", project, "-B", by_cmake, "-DCMAKE_PREFIX_PATH=" + prefix,
            "-DCMAKE_C_COMPILER=" + compiler)
        run(cmake, "--build", by_cmake)

        texts = {run(by_pkg_config, model), run(os.path.join(by_cmake, "client"), model)}
        print(texts)
        return 0 if len(texts) == 1 and len(texts.pop()) > 10 else 1


if __name__ == "__main__":
    sys.exit(main())
