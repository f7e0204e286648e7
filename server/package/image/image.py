"""Writes the container image from the tree that server/package/build has made, without a daemon.

The result is an archive in the layout of the Open Container Initiative: one layer, its configuration,
a manifest and an index. The same tree and time give the same bytes.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import sys
import tarfile
from datetime import datetime, timezone

# Above the users that distributions give out; the same as in kubernetes/zoolet.yaml.
USER = 65532
DATA = "/var/lib/zoolet"
PLATFORMS = {"x86_64": "amd64", "aarch64": "arm64"}
PASSWD = f"root:x:0:0:root:/:/sbin/nologin\nzoolet:x:{USER}:{USER}:zoolet:{DATA}:/sbin/nologin\n"
GROUP = f"root:x:0:\nzoolet:x:{USER}:\n"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def main(tree, cluster_toml, version, machine, time, output):
    root = layer(pathlib.Path(tree), pathlib.Path(cluster_toml), time)
    blobs = {}

    def blob(kind, data):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    config = configuration(version, machine, time, hashlib.sha256(root).hexdigest())
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob(CONFIG, encoded(config)),
        "layers": [blob(LAYER, gzip.compress(root, 9, mtime=0))],
    }
    entry = blob(MANIFEST, encoded(manifest))
    entry["platform"] = {"os": "linux", "architecture": PLATFORMS[machine]}
    entry["annotations"] = {
        "org.opencontainers.image.ref.name": version,
        # The name that containerd and Docker give it.
        "io.containerd.image.name": f"docker.io/library/zoolet:{version}",
    }
    files = {
        "oci-layout": encoded({"imageLayoutVersion": "1.0.0"}),
        "index.json": encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}),
        **blobs,
    }
    with open(output, "wb") as file:
        file.write(archive([(name, data, 0o644, 0) for name, data in files.items()], time))


def layer(tree, cluster_toml, time):
    """The files of the image. There is no shell and no library: the programs are static."""
    files = [
        ("usr/bin/zoolet", (tree / "bin/zoolet").read_bytes(), 0o755, 0),
        ("usr/bin/zooletctl", (tree / "bin/zooletctl").read_bytes(), 0o755, 0),
        ("etc/zoolet/cluster.toml", cluster_toml.read_bytes(), 0o644, 0),
        ("etc/passwd", PASSWD.encode(), 0o644, 0),
        ("etc/group", GROUP.encode(), 0o644, 0),
        ("usr/share/doc/zoolet/LICENSE", (tree / "LICENSE").read_bytes(), 0o644, 0),
        ("usr/share/doc/zoolet/THIRD-PARTY.txt", (tree / "THIRD-PARTY.txt").read_bytes(), 0o644, 0),
        ("tmp", None, 0o1777, 0),
        (DATA.strip("/"), None, 0o750, USER),
    ]
    return archive(files, time)


def archive(files, time):
    """Returns a tar of (name, data or None for a directory, mode, owner), with their parents."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        known = {name for name, _, _, _ in files}
        for name, data, mode, owner in sorted(files, key=lambda file: file[0]):
            for parent in reversed(pathlib.PurePosixPath(name).parents[:-1]):
                if str(parent) not in known:
                    known.add(str(parent))
                    add(tar, str(parent), None, 0o755, 0, time)
            add(tar, name, data, mode, owner, time)
    return buffer.getvalue()


def add(tar, name, data, mode, owner, time):
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
    info.mode, info.mtime, info.uid, info.gid = mode, time, owner, owner
    info.size = len(data or b"")
    tar.addfile(info, io.BytesIO(data or b""))


def configuration(version, machine, time, layer_digest):
    created = datetime_text(time)
    return {
        "created": created,
        "architecture": PLATFORMS[machine],
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {"2181/tcp": {}, "2888/tcp": {}, "8080/tcp": {}},
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/zoolet"],
            "Cmd": ["serve", "--config", "/etc/zoolet/cluster.toml"],
            "Volumes": {DATA: {}},
            "WorkingDir": DATA,
            "StopSignal": "SIGTERM",
            # Not of the Open Container Initiative: Docker and Podman read it.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/zooletctl", "status", "--named"],
                "Interval": 10_000_000_000,
                "Timeout": 5_000_000_000,
                "StartPeriod": 30_000_000_000,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "zoolet",
                "org.opencontainers.image.description": "ZooKeeper-compatible coordination server",
                "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.version": version,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        "history": [{"created": created, "created_by": "server/package/image.py"}],
    }


def datetime_text(time):
    return datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def encoded(value):
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


if __name__ == "__main__":
    tree, cluster_toml, version, machine, output = sys.argv[1:]
    main(tree, cluster_toml, version, machine, int(os.environ["SOURCE_DATE_EPOCH"]), output)
