"""The container image: read by skopeo, unpacked, and run as its configuration says."""

import json
import pathlib

from common import IMAGE, ROOT, VERSION, Network, Suite, container, run, until
from image_root import unpacked_image

NEEDS = ("ip", "skopeo", "unshare")


def main():
    with Suite("image", NEEDS) as suite:
        config = read_by_others(suite, IMAGE)
        root = unpacked_image(suite)
        runs(suite, root, config)
        suite.check(same_bytes(IMAGE), "the same tree gives another image")


def read_by_others(suite, image):
    """skopeo checks every digest and size when it copies, and converts to Docker's format."""
    config = json.loads(run("skopeo", "inspect", "--raw", "--config", f"oci-archive:{image}"))
    copied = suite.directory / "copied"
    policy = suite.directory / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    skopeo = ("skopeo", "--policy", policy, "copy", "--quiet", f"oci-archive:{image}")
    run(*skopeo, f"dir:{copied}")
    run(*skopeo, f"docker-archive:{suite.directory / 'docker.tar'}:zoolet:{VERSION}")
    inspected = json.loads(run("skopeo", "inspect", f"dir:{copied}"))
    suite.same(len(inspected["Layers"]), 1, "layers")
    suite.same(inspected["Os"], "linux", "the system")
    suite.same(inspected["Labels"]["org.opencontainers.image.version"], VERSION, "the version")
    container_config = config["config"]
    suite.check(int(container_config["User"].split(":")[0]) > 0, "it runs as root")
    suite.same(list(container_config["Volumes"]), ["/var/lib/zoolet"], "volumes")
    suite.check("2181/tcp" in container_config["ExposedPorts"], "the client port is not exposed")
    return container_config


def runs(suite, root, config):
    network = Network(suite)
    user = config["User"].split(":")[0]
    data = suite.directory / "volume"
    data.mkdir()
    # A runtime that makes a volume gives it the owner that the image has.
    owner = (root / "var/lib/zoolet").stat()
    suite.same(owner.st_uid, int(user), "the owner of the volume")
    run("chown", f"{owner.st_uid}:{owner.st_gid}", data)
    command = config["Entrypoint"] + config["Cmd"]
    server = container(
        suite, "server", network.space, root, user, command, [(data, "/var/lib/zoolet")]
    )
    health = config["Healthcheck"]["Test"]
    suite.same(health[0], "CMD", "there is no shell for the health check")

    def healthy(**options):
        inside = ["ip", "netns", "exec", network.space, "chroot", f"--userspec={user}:{user}"]
        return run(*inside, root, *health[1:], **options)

    said = until("the health check passes", healthy, 30)
    suite.check("1 of 1 server serve" in said, said)
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    suite.check(f"Uid:\t{user}\t{user}\t{user}" in status, "the user of the process")
    suite.check("CapEff:\t0000000000000000" in status, "the process has capabilities")
    ctl = root / "usr/bin/zooletctl"
    network.run(ctl, "create", "/from-outside", "on")
    suite.same(network.run(ctl, "get", "/from-outside"), "on\n", "what was written")
    suite.same(server.stop(), 0, "the exit code of a server that was stopped")
    healthy(fails=True)
    suite.check(any(data.iterdir()), "the volume is empty")


def same_bytes(image):
    before = image.read_bytes()
    run(ROOT / "server/package/image/build")
    return image.read_bytes() == before


main()
