"""The root directory of the container image."""

import json

from common import IMAGE, add_devices, run


def unpacked_image(suite):
    """Unpacks the layers as a runtime does, with their owners. Returns the root directory."""
    layout, root = suite.directory / "layout", suite.directory / "root"
    for directory in (layout, root):
        directory.mkdir()
    run("tar", "--extract", "--file", IMAGE, "--directory", layout)

    def blob(descriptor):
        return layout / "blobs/sha256" / descriptor["digest"].split(":")[1]

    index = json.loads((layout / "index.json").read_text())
    manifest = json.loads(blob(index["manifests"][0]).read_text())
    for layer in manifest["layers"]:
        how = ("--gzip", "--numeric-owner", "--same-owner", "--preserve-permissions")
        run("tar", "--extract", *how, "--file", blob(layer), "--directory", root)
    # A runtime makes the devices, and the places that it mounts on.
    add_devices(root)
    (root / "proc").mkdir()
    return root
