# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel with libcolibri and the demonstration model inside: no compiler at install.

    python3 build_wheel.py --library build/lib/capi/libcolibri.so --output dist

What the library needs and a manylinux system need not have (oneTBB, PCRE2, utf8proc) is carried
beside it under names that carry a hash, found by $ORIGIN: another libtbb in the process is left
alone. The platform tag follows from the symbol versions that all carried files need. The same
inputs give the same bytes. Needs patchelf, readelf and ldd; Python's standard library otherwise.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import hashlib
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
NATIVE = "colibri/_native"
LIBRARY_NAME = "libcolibri.so.0"

# Libraries of PEP 600 that every manylinux system has.
SYSTEM = {
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libstdc++.so.6",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}

# The first manylinux_2_N whose systems have these symbol versions of libstdc++, as auditwheel's
# policy has it: (newest version, N).
STDCXX = {
    "GLIBCXX": [("3.4.24", 28), ("3.4.28", 31), ("3.4.29", 34), ("3.4.30", 35), ("3.4.33", 39)],
    "CXXABI": [("1.3.11", 28), ("1.3.12", 31), ("1.3.13", 34), ("1.3.15", 39)],
}
LEAST_GLIBC = 28

# Compiled into the library: their licences belong to the wheel as well.
COMPILED_IN = ["libxxhash-dev", "nlohmann-json3-dev"]


def run(*command: object) -> str:
    return subprocess.run(
        [str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def needed(path: pathlib.Path) -> list[str]:
    """Names of the libraries that an ELF file needs."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "--dynamic", "--wide", path))


def resolve(path: pathlib.Path) -> dict[str, pathlib.Path]:
    """Where the loader finds what a library needs, directly or not."""
    pairs = re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", path), re.M)
    return {name: pathlib.Path(place).resolve() for name, place in pairs}


def version_key(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def platform_tag(paths: list[pathlib.Path]) -> str:
    """The oldest manylinux platform that has every symbol version the files need."""
    least = LEAST_GLIBC
    for path in paths:
        text = run("readelf", "--version-info", "--wide", path)
        text = text[text.index("Version needs section") :]
        for family, version in re.findall(r"Name: ([A-Z]+)_([0-9.]+)\s", text):
            if family == "GLIBC":
                least = max(least, version_key(version)[1])
            elif family in STDCXX:
                fitting = [n for v, n in STDCXX[family] if version_key(version) <= version_key(v)]
                if not fitting:
                    raise SystemExit(f"{path.name} needs {family}_{version}, newer than is known")
                least = max(least, fitting[0])
    return f"manylinux_2_{least}_{platform.machine()}"


def gather(library: pathlib.Path, folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Copies the library and what must be carried to folder; returns name there: original."""
    places = resolve(library)
    names = {}  # as needed: as carried
    waiting = [library]
    originals: dict[str, pathlib.Path] = {}
    while waiting:
        original = waiting.pop()
        name = LIBRARY_NAME
        if original != library:
            digest = hashlib.sha256(original.read_bytes()).hexdigest()[:8]
            soname = next(n for n, place in places.items() if place == original)
            stem, rest = soname.split(".so", 1)
            name = names[soname] = f"{stem}-{digest}.so{rest}"
        if name in originals:
            continue
        originals[name] = original
        shutil.copyfile(original, folder / name)
        for other in needed(original):
            if other in SYSTEM:
                continue
            if other not in places:
                raise SystemExit(f"{original.name} needs {other}, which is not there")
            waiting.append(places[other])
    for name, original in originals.items():
        carried = folder / name
        for other in needed(original):
            if other not in SYSTEM:
                run("patchelf", "--replace-needed", other, names[other], carried)
        run("patchelf", "--set-soname", name, carried)
        run("patchelf", "--set-rpath", "$ORIGIN", carried)
        carried.chmod(0o755)
    return originals


def package_of(path: pathlib.Path) -> str | None:
    """The Debian package of a file."""
    if shutil.which("dpkg-query") is None:
        return None
    for name in (str(path), str(path).replace("/usr/lib/", "/lib/", 1)):
        found = subprocess.run(
            ["dpkg-query", "--search", name], capture_output=True, text=True, check=False
        )
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    return None


def licences(originals: dict[str, pathlib.Path]) -> dict[str, bytes]:
    """Licence texts of this project and of everything that is carried."""
    texts = {"LICENSE": (SOURCE / "LICENSE").read_bytes()}
    packages = {package_of(path) for name, path in originals.items() if name != LIBRARY_NAME}
    for package in sorted(name for name in packages if name) + COMPILED_IN:
        copyright_file = pathlib.Path("/usr/share/doc") / package / "copyright"
        if copyright_file.is_file():
            texts[package + ".txt"] = copyright_file.read_bytes()
        else:
            print(f"build_wheel.py: no licence text of {package} is there", file=sys.stderr)
    return texts


def package_version(library: pathlib.Path) -> str:
    """Version of the package; the library must be of the same."""
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    version = str(re.findall(r'^version = "(.+)"$', text, re.M)[0])
    loaded = ctypes.CDLL(str(library))
    loaded.colibri_version.restype = ctypes.c_char_p
    if loaded.colibri_version().decode() != version:
        raise SystemExit(f"{library} is of version {loaded.colibri_version()}, not {version}")
    return version


def metadata(version: str) -> str:
    lines = [
        "Metadata-Version: 2.1",
        "Name: colibri",
        f"Version: {version}",
        "Summary: Runs mixture-of-experts language models whose experts live on disk, in RAM,"
        " or both",
        "License: Apache-2.0",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Programming Language :: Python :: 3",
        "Classifier: Typing :: Typed",
        "Requires-Python: >=3.9",
        "Description-Content-Type: text/markdown",
        "",
        (HERE / "README.md").read_text(encoding="utf-8"),
    ]
    return "\n".join(lines)


def build(library: pathlib.Path, model: pathlib.Path, output: pathlib.Path) -> pathlib.Path:
    """Writes the wheel and returns its path."""
    version = package_version(library)
    contents: dict[str, bytes] = {}
    package = HERE / "src/colibri"
    for path in sorted(package.glob("*.py")) + [package / "py.typed"]:
        contents[f"colibri/{path.name}"] = path.read_bytes()
    for path in sorted(model.iterdir()):
        contents[f"colibri/models/{model.name}/{path.name}"] = path.read_bytes()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        originals = gather(library.resolve(), folder)
        carried = sorted(folder.iterdir())
        tag = "py3-none-" + platform_tag(carried)
        for path in carried:
            contents[f"{NATIVE}/{path.name}"] = path.read_bytes()
    info = f"colibri-{version}.dist-info"
    for name, text in licences(originals).items():
        contents[f"{info}/licenses/{name}"] = text
    contents[f"{info}/METADATA"] = metadata(version).encode()
    contents[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: libcolibri\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    records = []
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        records.append(f"{name},sha256={digest},{len(data)}\n")
    contents[f"{info}/RECORD"] = ("".join(records) + f"{info}/RECORD,,\n").encode()
    output.mkdir(parents=True, exist_ok=True)
    wheel = output / f"colibri-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o755 if name.startswith(NATIVE) else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)
    return wheel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=pathlib.Path, required=True, help="libcolibri.so")
    parser.add_argument(
        "--model",
        type=pathlib.Path,
        default=SOURCE / "examples/models/colibri-tiny-packed",
        help="folder of the model to carry",
    )
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("dist"))
    arguments = parser.parse_args()
    for tool in ("patchelf", "readelf", "ldd"):
        if shutil.which(tool) is None:
            raise SystemExit(f"build_wheel.py: {tool} is not installed")
    print(build(arguments.library, arguments.model, arguments.output))


if __name__ == "__main__":
    main()
