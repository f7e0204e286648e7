"""A pytest plugin that runs kazoo's own suite against servers of our choice.

kazoo's harness asks ``kazoo.testing.common`` for a ``ZookeeperCluster`` and starts, stops and
destroys its servers one by one. This plugin puts a module of that name in its place whose servers
are processes of any command that serves a ``zoo.cfg``: Apache ZooKeeper and zoolet get the same
file.

Environment:

ZOOLET_KAZOO_COMMAND  the command of one server, a JSON list; ``{config}`` and ``{id}`` are filled in
ZOOLET_KAZOO_PORTS    free loopback ports, comma separated, nine for each pytest-xdist worker
ZOOLET_KAZOO_RESULTS  the file for the outcomes: ``outcome<TAB>seconds<TAB>test`` per line

Left out are the suite's TLS and SASL tests, and what runs without any server is kept: it shows that
the environment is sound.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import types

import pytest

PORTS_PER_SERVER = 3
SERVERS = 3
SERVING_WITHIN_S = 60
STOPPED_WITHIN_S = 20

# Tests that need a TLS port or a SASL login module.
ASIDE = ("test_sasl.py::", "::TestSSLClient::")


class Server:
    """One server process; it has the attributes that kazoo's harness and tests use."""

    def __init__(self, server_id, ports, peers, lines, observer):
        self.server_id = server_id
        self.client_port, self.quorum_port, self.election_port = ports
        self.host = "127.0.0.1"
        self.address = f"{self.host}:{self.client_port}"
        self.observer = observer
        self.peers = peers
        self.lines = lines
        self.process = None
        self.directory = None

    @property
    def running(self):
        return self.process is not None

    def member_line(self):
        role = "observer" if self.observer else "participant"
        return (
            f"server.{self.server_id}={self.host}:{self.quorum_port}"
            f":{self.election_port}:{role}"
        )

    def run(self):
        if self.running:
            return
        if self.directory is None:
            self.directory = pathlib.Path(tempfile.mkdtemp(prefix="zoolet-kazoo-"))
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(f"{self.server_id}\n")
        config = self.directory / "zoo.cfg"
        config.write_text("\n".join(self.config_lines(data)) + "\n")
        words = json.loads(os.environ["ZOOLET_KAZOO_COMMAND"])
        filled = {"{config}": str(config), "{id}": str(self.server_id)}
        command = [filled.get(word, word) for word in words]
        with open(self.directory / "output", "ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def config_lines(self, data):
        lines = [
            "tickTime=2000",
            "initLimit=4",
            "syncLimit=2",
            f"dataDir={data}",
            f"clientPort={self.client_port}",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "preAllocSize=1024",
            "readonlymode.enabled=true",
        ]
        if self.observer:
            lines.append("peerType=observer")
        return lines + self.lines + [peer.member_line() for peer in self.peers]

    def serves(self):
        try:
            with socket.create_connection((self.host, self.client_port), timeout=2) as stream:
                stream.sendall(b"srvr")
                answer = b""
                while chunk := stream.recv(4096):
                    answer += chunk
        except OSError:
            return False
        return b"Mode: " in answer and b"Mode: read-only" not in answer

    def stop(self):
        if not self.running:
            return
        self.process.terminate()
        try:
            self.process.wait(STOPPED_WITHIN_S)
        finally:
            # A server that ignores SIGTERM is a failure of the test that stops it, and must not
            # stay behind either.
            self.process.kill()
            self.process.wait()
            self.process = None

    def destroy(self):
        self.stop()
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = None

    def reset(self):
        self.destroy()

    def get_logs(self, num_lines=100):
        if self.directory is None:
            return []
        lines = (self.directory / "output").read_text(errors="replace").splitlines()
        return lines[-num_lines:]


class ZookeeperCluster:
    """What kazoo's harness takes for its own cluster class."""

    def __init__(
        self,
        size=SERVERS,
        observer_start_id=-1,
        configuration_entries=(),
        java_system_properties=(),
        jaas_config=None,
        **_ignored,
    ):
        if jaas_config is not None:
            raise RuntimeError("SASL tests are left out")
        lines = list(configuration_entries)
        # zoo.cfg accepts ZooKeeper's system properties too, without their prefix.
        lines += [entry.removeprefix("-Dzookeeper.") for entry in java_system_properties]
        ports = worker_ports(size)
        self.servers = []
        for index in range(size):
            server_id = index + 1
            observer = observer_start_id != -1 and server_id >= observer_start_id
            own = ports[index * PORTS_PER_SERVER : (index + 1) * PORTS_PER_SERVER]
            self.servers.append(Server(server_id, own, self.servers, lines, observer))

    def __getitem__(self, index):
        return self.servers[index]

    def __iter__(self):
        return iter(self.servers)

    def start(self):
        for server in self.servers:
            server.run()
        deadline = time.monotonic() + SERVING_WITHIN_S
        waiting = list(self.servers)
        while waiting:
            waiting = [server for server in waiting if not server.serves()]
            if not waiting:
                return
            if time.monotonic() > deadline:
                logs = "\n".join("\n".join(server.get_logs()) for server in waiting)
                raise RuntimeError(f"{len(waiting)} servers do not serve:\n{logs}")
            time.sleep(0.05)

    def stop(self):
        for server in self.servers:
            server.stop()

    def terminate(self):
        for server in self.servers:
            server.destroy()

    def reset(self):
        for server in self.servers:
            server.reset()

    def get_logs(self):
        return [line for server in self.servers for line in server.get_logs()]


def worker_ports(servers):
    """The ports of this pytest-xdist worker: gw0, gw1, …; without xdist the first ones."""
    ports = [int(port) for port in os.environ["ZOOLET_KAZOO_PORTS"].split(",")]
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    count = servers * PORTS_PER_SERVER
    own = ports[worker * count : (worker + 1) * count]
    if len(own) < count:
        raise RuntimeError("ZOOLET_KAZOO_PORTS has too few ports")
    return own


# kazoo's own module imports libraries for TLS key stores; this line is the first to import it.
common = types.ModuleType("kazoo.testing.common")
common.ZookeeperCluster = ZookeeperCluster
sys.modules["kazoo.testing.common"] = common


def pytest_collection_modifyitems(config, items):
    aside = [item for item in items if any(part in item.nodeid for part in ASIDE)]
    if aside:
        config.hook.pytest_deselected(items=aside)
        items[:] = [item for item in items if item not in aside]


class Outcomes:
    """Writes one line per test, in the process that sees all of them."""

    def __init__(self, path):
        self.path = path
        self.outcomes = {}

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.rsplit("kazoo/tests/", 1)[-1]
        outcome, seconds = self.outcomes.get(name, ("passed", 0.0))
        if report.failed or (report.skipped and outcome == "passed"):
            outcome = report.outcome
        self.outcomes[name] = (outcome, seconds + report.duration)

    def pytest_sessionfinish(self):
        with open(self.path, "w", encoding="utf-8") as file:
            for name, (outcome, seconds) in sorted(self.outcomes.items()):
                file.write(f"{outcome}\t{seconds:.1f}\t{name}\n")


def pytest_configure(config):
    path = os.environ.get("ZOOLET_KAZOO_RESULTS")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(path), "zoolet-kazoo-outcomes")
