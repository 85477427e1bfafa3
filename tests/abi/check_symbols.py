# SPDX-License-Identifier: Apache-2.0
#
# What libcolibri.so exports and what it needs. Exported: exactly the names of exported_symbols.txt, one a line; a change of
# that file is a change of the API. Needed: nothing by which a library could end, print from, or reconfigure its host.
# std::terminate is in the list of needs whatever the source says: the compiler refers to it for every noexcept
# function; that it is never reached is what the fault tests of tests/capi show.
# Usage: check_symbols.py LIBRARY LIST [release]

import re
import subprocess
import sys

FORBIDDEN = set("""
abort exit _exit _Exit quick_exit raise kill
printf vprintf fprintf vfprintf dprintf puts putchar fputs fputc fwrite perror write stdout stderr stdin
signal sigaction setlocale setenv putenv unsetenv getenv secure_getenv chdir fchdir umask
system popen fork vfork execv execve execvp posix_spawn posix_spawnp
setrlimit sched_setaffinity pthread_setaffinity_np mlock mlockall fesetround fesetenv
_ZSt4cout _ZSt4cerr _ZSt4clog
""".split())
FORBIDDEN_IN_RELEASE = {"__assert_fail", "_ZSt21__glibcxx_assert_failPKciS0_S0_"}
OPENMP = re.compile(r"lib(gomp|omp|iomp5)")


def names(library, option):
    output = subprocess.run(["nm", "-D", option, library], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        kind, name = line.split()[-2:]
        yield kind, name.split("@")[0]


def main():
    library, list_file = sys.argv[1:3]
    faults = []
    exported = {name for kind, name in names(library, "--defined-only") if kind != "A"}
    with open(list_file, encoding="utf-8") as file:
        expected = set(file.read().split())
    faults += ["exported, but not in %s: %s" % (list_file, name) for name in sorted(exported - expected)]
    faults += ["not exported any more: " + name for name in sorted(expected - exported)]
    faults += ["no name of ours: " + name for name in exported if not name.startswith("colibri_")]

    needed = {name for _, name in names(library, "--undefined-only")}
    forbidden = FORBIDDEN | (FORBIDDEN_IN_RELEASE if "release" in sys.argv[3:] else set())
    faults += ["needs " + name for name in sorted(needed & forbidden)]
    dynamic = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    faults += [line.strip() for line in dynamic.splitlines() if OPENMP.search(line) or "RPATH" in line or "RUNPATH" in line]
    faults += [] if re.search(r"SONAME.*libcolibri\.so\.\d+", dynamic) else ["no versioned SONAME"]

    print("\n".join(faults))
    print("%d exported names, %d needed names, %d faults" % (len(exported), len(needed), len(faults)))
    return 1 if faults or len(exported) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
