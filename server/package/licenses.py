"""Prints the licenses of everything that is linked into the programs of the archive."""

import json
import pathlib
import subprocess
import sys

PROGRAMS = {"zoolet", "zooletctl"}
NAMES = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")
C_LIBRARY = """\
The GNU C Library, linked statically, is licensed under the LGPL, version 2.1 or later; its source is
at https://www.gnu.org/software/libc/. `make dist` of zoolet's source links the programs again, with
this or another version of it.
"""


def main(target):
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    linked = reached(metadata["resolve"]["nodes"], packages)
    print("Besides the code of zoolet itself (Apache-2.0, LICENSE), the programs contain these.\n")
    print(C_LIBRARY)
    texts = {}
    foreign = [packages[id] for id in linked if packages[id]["source"]]
    for package in sorted(foreign, key=lambda package: (package["name"], package["version"])):
        name = f"{package['name']} {package['version']}"
        print(f"{name}: {package['license']}, {package['repository'] or 'https://crates.io'}")
        for text in license_texts(package):
            texts.setdefault(text, []).append(name)
    for text, names in texts.items():
        print(f"\n{'=' * 80}\n{', '.join(names)}\n{'=' * 80}\n\n{text}")


def reached(nodes, packages):
    """Returns what the programs depend on, without what only builds or tests them."""
    nodes = {node["id"]: node for node in nodes}
    found, waiting = set(), [id for id in nodes if packages[id]["name"] in PROGRAMS]
    while waiting:
        id = waiting.pop()
        if id in found:
            continue
        found.add(id)
        for dependency in nodes[id]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return found


def license_texts(package):
    directory = pathlib.Path(package["manifest_path"]).parent
    for path in sorted(directory.iterdir()):
        if path.is_file() and path.name.upper().startswith(NAMES):
            yield path.read_text(errors="replace").strip()


if __name__ == "__main__":
    main(sys.argv[1])
