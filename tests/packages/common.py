"""What the test programs of the packages share: commands, waits, verdicts, and containers."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DIST = ROOT / "target/dist"
VERSION = next(
    line.split('"')[1]
    for line in (ROOT / "Cargo.toml").read_text().splitlines()
    if line.startswith("version = ")
)
MACHINE = os.uname().machine
NAME = f"zoolet-{VERSION}-{MACHINE}-linux"
IMAGE = DIST / f"zoolet-{VERSION}-{MACHINE}.oci.tar"
# What a failure shows of each process.
LOG_SHOWN = 4000
IS_REQUIRED = os.environ.get("ZOOLET_REQUIRE_FOREIGN") == "1"
# A suite that a time limit ends leaves no process and no network behind either.
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


class Suite:
    """Counts checks, and ends what was begun, in the opposite order."""

    def __init__(self, name, needs=()):
        self.name, self.checks, self.ends, self.processes = name, 0, [], []
        self.start = time.monotonic()
        missing = [program for program in needs if not shutil.which(program)]
        if os.geteuid() != 0:
            missing.append("root")
        if missing:
            self.not_run(f"needs {', '.join(missing)}")
            sys.exit(0)

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"zoolet-{self.name}-"))
        self.at_end(lambda: shutil.rmtree(self.directory, ignore_errors=True))
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, Exception):
            for process in self.processes:
                print(f"--- {process.log.name}\n{process.said()[-LOG_SHOWN:]}", flush=True)
        while self.ends:
            self.ends.pop()()
        took = f"{time.monotonic() - self.start:.0f} s"
        if error is None:
            print(f"packages: {self.name} ok in {took}, {self.checks} checks", flush=True)
        elif not isinstance(error, SystemExit):
            print(f"packages: {self.name} FAILED after {took}", flush=True)

    def at_end(self, action):
        self.ends.append(action)

    def not_run(self, why):
        """Says what is not tested on this machine; an error where everything has to be."""
        print(f"NOT RUN: packages: {self.name}: {why}", flush=True)
        if IS_REQUIRED:
            sys.exit(1)

    def check(self, fact, what):
        assert fact, f"{self.name}: {what}"
        self.checks += 1

    def same(self, found, expected, what):
        assert found == expected, f"{self.name}: {what}: {found!r}, expected {expected!r}"
        self.checks += 1


def run(*command, fails=False, **options):
    """Runs a command and returns its output; its failure is an error, unless it is expected."""
    command = [str(word) for word in command]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    options = {"timeout": 300, "stdin": subprocess.DEVNULL, **options}
    done = subprocess.run(command, **options)
    if (done.returncode != 0) != fails:
        raise AssertionError(
            f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
    return done.stdout if not fails else f"{done.stdout}{done.stderr}"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def add_devices(root):
    """Makes the devices that every system and every container has, and a server reads from."""
    (root / "dev").mkdir()
    run("cp", "--archive", "/dev/null", "/dev/random", "/dev/urandom", root / "dev")


def until(what, fact, limit_s=60):
    """Waits until something is so, and returns its value."""
    end = time.monotonic() + limit_s
    last = None
    while time.monotonic() < end:
        try:
            if value := fact():
                return value
        except (AssertionError, OSError) as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"not within {limit_s} s: {what}; {last}")


class Process:
    """A process in the background, with its output in a file. It ends with the suite."""

    def __init__(self, suite, name, command, **options):
        self.log = suite.directory / f"{name}.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                **options,
            )
        suite.processes.append(self)
        suite.at_end(self.kill)

    def said(self):
        return self.log.read_text(errors="replace")

    def is_running(self):
        return self.process.poll() is None

    def stop(self, limit_s=20):
        """Asks it to end, and returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(limit_s)

    def kill(self):
        if self.is_running():
            self.process.kill()
            self.process.wait()


class Network:
    """A network of its own, with a bridge and a name service; pods are joined to it."""

    PREFIX = "10.99.7"
    DOMAIN = "default.svc.cluster.local"

    def __init__(self, suite):
        self.suite = suite
        self.space = f"zk{os.getpid()}"
        self.add_space(self.space)
        self.run("ip", "link", "add", "br0", "type", "bridge")
        self.run("ip", "addr", "add", f"{self.PREFIX}.1/24", "dev", "br0")
        self.run("ip", "link", "set", "br0", "up")
        self.hosts = suite.directory / "hosts"
        self.hosts.write_text("")
        self.names = None

    def add_space(self, name):
        run("ip", "netns", "add", name)
        self.suite.at_end(lambda: run("ip", "netns", "del", name))
        run("ip", "-n", name, "link", "set", "lo", "up")

    def run(self, *command, **options):
        """Runs a command beside the pods."""
        return run("ip", "netns", "exec", self.space, *command, **options)

    def serve_names(self):
        address = f"--listen-address={self.PREFIX}.1"
        files = ["--conf-file=/dev/null", "--no-hosts", "--no-resolv", f"--addn-hosts={self.hosts}"]
        command = ["dnsmasq", "--keep-in-foreground", "--user=root", "--pid-file", address]
        options = ["--bind-interfaces", "--local=/cluster.local/", *files]
        self.names = Process(
            self.suite, "dnsmasq", ["ip", "netns", "exec", self.space, *command, *options]
        )

    def name(self, names):
        """Sets what the name service knows: names below the domain, with their addresses."""
        lines = [f"{address} {name}.{self.DOMAIN}\n" for name, address in names.items()]
        self.hosts.write_text("".join(lines))
        if self.names:
            self.names.process.send_signal(signal.SIGHUP)

    def join(self, name, number):
        """Makes a pod's end of the network; returns its namespace and address."""
        space, address = f"{self.space}-{name}", f"{self.PREFIX}.{number}"
        self.add_space(space)
        self.run("ip", "link", "add", f"v{number}", "type", "veth", "peer", "name",
                 "eth0", "netns", space)
        self.run("ip", "link", "set", f"v{number}", "master", "br0", "up")
        run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
        run("ip", "-n", space, "link", "set", "eth0", "up")
        return space, address


def container(suite, name, space, root, user, command, mounts=(), environment=None):
    """Starts a command in a root directory that is read-only, as a user of its own. Mounts
    are pairs of a directory of this machine and a path."""
    lines = ["set -e", f"mount --bind {root} {root}"]
    lines += [f"mount --bind {source} {root}{path}" for source, path in mounts]
    lines += [f"mount -t proc proc {root}/proc", f"mount -o remount,bind,ro {root}"]
    lines += [f'exec chroot --userspec={user}:{user} --groups= {root} "$@"']
    script = "\n".join(lines)
    return Process(
        suite,
        name,
        ["ip", "netns", "exec", space, "unshare", "--mount", "sh", "-c", script, "sh", *command],
        env={"PATH": os.environ["PATH"], **(environment or {})},
    )
