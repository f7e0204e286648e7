"""A machine of Debian, made from its packages and booted with systemd in namespaces of its own."""

import shutil
import signal
import subprocess

from common import ROOT, Process, run, until

RELEASE = "bookworm"
# Kept for the next run: the machine before anything is installed on it.
KEPT = ROOT / f"target/packages/debian-{RELEASE}.tar"
BOOT_S = 90


class Machine:
    def __init__(self, suite, packages):
        self.root = suite.directory / "machine"
        self.root.mkdir()
        if not KEPT.exists():
            KEPT.parent.mkdir(parents=True, exist_ok=True)
            begun = KEPT.with_suffix(".begun.tar")
            run("mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}", RELEASE, begun)
            begun.rename(KEPT)
        # The devices are made at the boot.
        run("tar", "--extract", "--file", KEPT, "--directory", self.root, "--exclude=./dev/*")
        command = ["systemd-nspawn", f"--directory={self.root}", "--machine=zoolet-packages", "--boot"]
        # There is no service manager to ask for a unit where CI runs.
        command += ["--register=no", "--keep-unit", "--private-network"]
        self.process = Process(suite, "machine", command)
        suite.at_end(self.power_off)
        self.first = None
        try:
            until("the machine has booted", self.has_booted, BOOT_S)
        except AssertionError as error:
            suite.not_run(f"systemd-nspawn does not boot here: {error}; {self.process.said()[-500:]}")
            raise SystemExit(0) from error

    def has_booted(self):
        if not self.process.is_running():
            raise AssertionError("systemd-nspawn has ended")
        children = subprocess.run(
            ["pgrep", "--parent", str(self.process.process.pid)], stdout=subprocess.PIPE, text=True
        ).stdout.split()
        self.first = children[0] if children else None
        return self.first and "running" in self.run("systemctl", "is-system-running")

    def power_off(self):
        if self.first and self.process.is_running():
            # systemd takes it for an order to power off (systemd(1)).
            subprocess.run(["kill", f"-{signal.SIGRTMIN + 4}", self.first], check=True)
            try:
                self.process.process.wait(60)
            except subprocess.TimeoutExpired:
                print("the machine does not power off; it is killed", flush=True)

    def run(self, *command, **options):
        """Runs a command on the machine, as its root."""
        inside = ["nsenter", f"--target={self.first}", "--mount", "--pid", "--uts", "--ipc", "--net"]
        return run(*inside, "--wd=/", "--", *command, **options)

    def put(self, source, path):
        """Copies a file of this machine."""
        shutil.copy(source, self.root / path.lstrip("/"))

    def write(self, path, text):
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def exists(self, path):
        return (self.root / path.lstrip("/")).exists()
