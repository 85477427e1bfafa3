# SPDX-License-Identifier: Apache-2.0
#
# Size of every public struct and offset and size of every field against struct_layout.txt. Structs and fields are
# read from the headers, numbers come from a C program that the script makes and runs, so nothing can be forgotten. A new line
# at the end of a struct is an extension; any other change of the file breaks programs that exist.
# Usage: check_struct_layout.py INCLUDE_FOLDER C_COMPILER STORED [--update]

import os
import re
import subprocess
import sys
import tempfile

STRUCT = re.compile(r"typedef struct (colibri_\w+) \{(.*?)\} \1;", re.S)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FIELD = re.compile(r"(\w+)\s*(\[[^\]]*\])?$")


def read_structs(include):
    structs = {}
    folder = os.path.join(include, "colibri")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = COMMENT.sub("", file.read())
        for struct, body in STRUCT.findall(text):
            declarations = [part.strip() for part in body.split(";") if part.strip()]
            structs[struct] = [FIELD.search(part).group(1) for part in declarations]
    return structs


def write_program(structs):
    lines = ['#include "colibri/colibri.h"', "#include <stdio.h>", "int main(void) {"]
    for struct, fields in sorted(structs.items()):
        lines.append('  printf("%s size %%zu\\n", sizeof(%s));' % (struct, struct))
        for field in fields:
            lines.append('  printf("%s.%s offset %%zu size %%zu\\n", offsetof(%s, %s), sizeof(((%s *)0)->%s));'
                         % (struct, field, struct, field, struct, field))
    return "\n".join(lines + ["  return 0;", "}", ""])


def measure(include, compiler, structs):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "layout.c")
        program = os.path.join(folder, "layout")
        with open(source, "w", encoding="utf-8") as file:
            file.write(write_program(structs))
        subprocess.run([compiler, "-std=c11", "-I", include, source, "-o", program], check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def main():
    include, compiler, stored = sys.argv[1:4]
    structs = read_structs(include)
    found = measure(include, compiler, structs)
    if "--update" in sys.argv[4:]:
        with open(stored, "w", encoding="utf-8") as file:
            file.write(found)
    with open(stored, encoding="utf-8") as file:
        expected = file.read()
    missing = sorted(set(expected.splitlines()) - set(found.splitlines()))
    added = sorted(set(found.splitlines()) - set(expected.splitlines()))
    print("\n".join(["- " + line for line in missing] + ["+ " + line for line in added]))
    print("%d structs, %d fields" % (len(structs), sum(map(len, structs.values()))))
    return 1 if missing or added or len(structs) < 12 else 0


if __name__ == "__main__":
    sys.exit(main())
