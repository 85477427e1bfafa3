# SPDX-License-Identifier: Apache-2.0
#
# Lists that must agree with each other: every exported function is called in tests/capi and declared in a public header
# with a comment that states threads and version; its signature is that of signatures.txt, where a line may be added but
# never changed; the codes of status.h are those of status_table.inc.
# Usage: check_api_tests.py ROOT

import glob
import os
import re
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_calls(names, root):
    tests = "".join(read(path) for path in glob.glob(os.path.join(root, "tests/capi/*.c*")))
    return ["not called in tests/capi: " + name for name in names if not re.search(name + r"\b", tests)]


def check_comments(names, root):
    headers = "".join(read(path) for path in sorted(glob.glob(os.path.join(root, "include/colibri/*.h"))))
    documented = re.findall(r"/\*\*((?:[^*]|\*(?!/))*)\*/\s*COLIBRI_API[^;]*?\b(colibri_\w+)\(", headers)
    comments = {name: comment for comment, name in documented}
    faults = ["declared without a comment, or not at all: " + name for name in names if name not in comments]
    for name, comment in sorted(comments.items()):
        if name not in names:
            faults.append("declared, but not exported: " + name)
        has_threads = re.search(r"[Tt]hreads(, | and | )", comment)
        if not has_threads or not re.search(r"Since +0\.\d", comment):
            faults.append("the comment states no threads or no version: " + name)
    return faults


def check_signatures(root):
    headers = "".join(read(path) for path in sorted(glob.glob(os.path.join(root, "include/colibri/*.h"))))
    declared = re.findall(r"^COLIBRI_API ([^;]*);", re.sub(r"/\*.*?\*/", "", headers, flags=re.S), re.M)
    found = {" ".join(declaration.split()) for declaration in declared}
    stored = set(read(os.path.join(root, "tests/abi/signatures.txt")).splitlines())
    return ["signature is gone: " + line for line in sorted(stored - found)] + [
        "signature is not in signatures.txt: " + line for line in sorted(found - stored)]


def check_codes(root):
    table = {name: int(number) for name, number in re.findall(
        r"COLIBRI_STATUS_ROW\(\w+, (\w+), (-?\d+),", read(os.path.join(root, "lib/base/status_table.inc")))}
    header = {name: int(number) for name, number in re.findall(
        r"#define (COLIBRI_OK|COLIBRI_E_\w+) \(?(-?\d+)\)?", read(os.path.join(root, "include/colibri/status.h")))}
    codes = sorted(set(table.items()) ^ set(header.items()))
    return ["status.h and status_table.inc differ in %s %d" % code for code in codes] + (
        [] if len(header) > 15 else ["status.h has too few codes"])


def main():
    root = sys.argv[1]
    names = read(os.path.join(root, "tests/abi/exported_symbols.txt")).split()
    faults = check_calls(names, root) + check_comments(names, root) + check_signatures(
        root) + check_codes(root)
    print("\n".join(faults))
    print("%d functions, %d faults" % (len(names), len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
