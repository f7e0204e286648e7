"""The Debian package: read by lintian, installed on a machine of Debian that systemd boots, started,
stopped, killed, upgraded, removed and purged. Then the archive, by the commands of docs/install.md."""

import re

from common import DIST, NAME, ROOT, VERSION, Suite, run, until
from machine import Machine

NEEDS = ("dpkg-deb", "lintian", "mmdebstrap", "nsenter", "systemd-nspawn")
# What a server needs has none of these packages; the tests ask for man pages and completions.
ON_THE_MACHINE = ("systemd", "systemd-sysv", "dbus", "man-db", "bash-completion")
# 10 is a service without any restriction (systemd-analyze(1)).
EXPOSURE_MAX = 2.0
CONFIG = "/etc/zoolet/cluster.toml"
DATA = "/var/lib/zoolet"


def main():
    with Suite("deb", NEEDS) as suite:
        (package,) = DIST.glob(f"zoolet_{VERSION}-*.deb")
        run("lintian", "--allow-root", "--fail-on=error,warning", package)
        suite.checks += 1
        machine = Machine(suite, ON_THE_MACHINE)
        install(machine, package)
        nothing_runs_after_the_installation(suite, machine)
        documents_are_found(suite, machine)
        one_of_three_becomes_active_with_a_majority(suite, machine)
        started(suite, machine)
        restricted(suite, machine)
        reloaded_and_killed(suite, machine)
        upgraded(suite, machine, package)
        stopped(suite, machine)
        removed(suite, machine, package)
        purged(suite, machine)
        installed_by_hand(suite, machine)


def install(machine, package):
    machine.put(package, "/var/zoolet.deb")
    machine.run("dpkg", "--install", "/var/zoolet.deb")


def shown(machine, name):
    return machine.run("systemctl", "show", "--value", f"--property={name}", "zoolet").strip()


def nothing_runs_after_the_installation(suite, machine):
    suite.same(shown(machine, "ActiveState"), "inactive", "the unit")
    suite.same(shown(machine, "UnitFileState"), "disabled", "the unit")
    suite.check("zoolet" in machine.run("getent", "passwd", "zoolet"), "there is no user")


def documents_are_found(suite, machine):
    for page in ("zoolet", "zoolet-serve", "zooletctl", "zooletctl-status"):
        suite.check(page in machine.run("man", "--where", page), f"no man page {page}")
    for program in ("zoolet", "zooletctl"):
        script = f"""source /usr/share/bash-completion/bash_completion
_completion_loader {program}
complete -p {program}"""
        suite.check(f"_{program}" in machine.run("bash", "-c", script), "no completion")
    for path in ("fish/vendor_completions.d/zoolet.fish", "zsh/vendor-completions/_zoolet"):
        suite.check(machine.exists(f"/usr/share/{path}"), f"no {path}")
    suite.check(machine.exists("/usr/share/doc/zoolet/THIRD-PARTY.txt.gz"), "no licenses")


def one_of_three_becomes_active_with_a_majority(suite, machine):
    """The unit is active when the server serves, not when its process runs."""
    packaged = (machine.root / CONFIG.lstrip("/")).read_text()
    servers = [
        f'[[server]]\nid = {id}\nclient = "127.0.0.1:218{id}"\npeer = "127.0.0.1:288{id}"\n'
        f'data_dir = "{DATA}/ensemble-{id}"\n'
        for id in (1, 2, 3)
    ]
    machine.write(CONFIG, "".join(servers))
    machine.write("/etc/default/zoolet", 'ZOOLET_OPTIONS="--id 1"\n')
    machine.run("systemctl", "start", "--no-block", "zoolet")
    until("it waits", lambda: shown(machine, "StatusText") == "waiting for a leader")
    suite.same(shown(machine, "ActiveState"), "activating", "a server without a majority")
    for id in (2, 3):
        machine.run("systemd-run", f"--unit=zoolet-{id}", "--property=User=zoolet",
                    "/usr/bin/zoolet", "serve", "--config", CONFIG, "--id", id)
    until("it is active", lambda: shown(machine, "ActiveState") == "active")
    until("it serves", lambda: re.fullmatch("serving, (leader|follower)", shown(machine, "StatusText")))
    machine.run("systemctl", "stop", "zoolet", "zoolet-2", "zoolet-3")
    machine.write(CONFIG, packaged)
    machine.write("/etc/default/zoolet", "")
    suite.checks += 2


def started(suite, machine):
    machine.run("systemctl", "enable", "--now", "zoolet")
    suite.same(shown(machine, "ActiveState"), "active", "the unit")
    until("it serves", lambda: shown(machine, "StatusText") == "serving, standalone")
    machine.run("zooletctl", "create", "/kept", "on")
    suite.same(machine.run("zooletctl", "get", "/kept"), "on\n", "what was written")


def status(machine, name):
    text = machine.run("cat", f"/proc/{shown(machine, 'MainPID')}/status")
    return re.search(rf"^{name}:\t(.*)$", text, re.M)[1]


def restricted(suite, machine):
    """What the unit forbids is forbidden to the process that runs."""
    user = machine.run("id", "--user", "zoolet").strip()
    suite.same(status(machine, "Uid").split(), [user] * 4, "the user of the process")
    for name, value in (("CapEff", "0" * 16), ("CapBnd", "0" * 16), ("NoNewPrivs", "1"), ("Seccomp", "2")):
        suite.same(status(machine, name), value, name)
    # As root, in the file systems that the process sees.
    inside = ("nsenter", f"--target={shown(machine, 'MainPID')}", "--mount", "--wd=/", "--")
    for path in ("/etc/written", "/usr/written", "/var/written"):
        said = machine.run(*inside, "touch", path, fails=True)
        suite.check("Read-only file system" in said, f"{path}: {said}")
    machine.run(*inside, "touch", f"{DATA}/written")
    machine.run("rm", f"{DATA}/written")
    said = machine.run("systemd-analyze", "security", "--no-pager", "zoolet")
    exposure = re.search(r"Overall exposure level for zoolet.service: ([0-9.]+)", said)[1]
    suite.check(float(exposure) <= EXPOSURE_MAX, f"exposure {exposure}, at most {EXPOSURE_MAX}")
    print(f"packages: deb: systemd-analyze security gives {exposure} of 10", flush=True)


def reloaded_and_killed(suite, machine):
    machine.run("systemctl", "reload", "zoolet")
    suite.same(shown(machine, "ActiveState"), "active", "after a reload")
    before = shown(machine, "MainPID")
    machine.run("sh", "-c", f"kill -9 {before}")
    until("it is started again", lambda: shown(machine, "NRestarts") == "1"
          and shown(machine, "ActiveState") == "active")
    suite.check(shown(machine, "MainPID") != before, "the process is the same")
    suite.same(machine.run("zooletctl", "get", "/kept"), "on\n", "what a kill leaves")


def upgraded(suite, machine, package):
    """A new release does not stop the server: the operator decides when."""
    tree, newer = suite.directory / "newer", suite.directory / "newer.deb"
    run("dpkg-deb", "--raw-extract", package, tree)
    control = tree / "DEBIAN/control"
    text = control.read_text()
    control.write_text(re.sub(r"(?m)^Version: .*$", "Version: 99.0-1", text))
    run("dpkg-deb", "--root-owner-group", "--build", tree, newer)
    before = shown(machine, "MainPID")
    machine.write(CONFIG, (machine.root / CONFIG.lstrip("/")).read_text() + "# Changed here.\n")
    install(machine, newer)
    version = machine.run("dpkg-query", "--show", "--showformat=${Version}", "zoolet")
    suite.same(version, "99.0-1", "the version")
    suite.same(shown(machine, "MainPID"), before, "the process after an upgrade")
    suite.check("# Changed here." in machine.run("cat", CONFIG), "the configuration is replaced")
    machine.run("systemctl", "restart", "zoolet")
    suite.same(machine.run("zooletctl", "get", "/kept"), "on\n", "what an upgrade leaves")


def stopped(suite, machine):
    machine.run("systemctl", "stop", "zoolet")
    for name, value in (("ActiveState", "inactive"), ("Result", "success"), ("ExecMainStatus", "0")):
        suite.same(shown(machine, name), value, name)
    log = machine.run("journalctl", "--no-pager", "--unit=zoolet", "--output=cat")
    suite.check(re.search("stopping.*SIGTERM", log), f"the journal has no reason: {log[-500:]}")
    machine.run("systemctl", "start", "zoolet")


def removed(suite, machine, package):
    machine.run("dpkg", "--remove", "zoolet")
    suite.check(not machine.exists("/usr/bin/zoolet"), "the program is still there")
    names = machine.run("sh", "-c", "cat /proc/[0-9]*/comm").split()
    suite.check("systemd" in names and "zoolet" not in names, f"processes: {names}")
    suite.check(machine.exists(CONFIG), "the configuration is gone")
    install(machine, package)
    machine.run("systemctl", "start", "zoolet")
    suite.same(machine.run("zooletctl", "get", "/kept"), "on\n", "what a removal leaves")


def purged(suite, machine):
    machine.run("dpkg", "--purge", "zoolet")
    for path in (DATA, "/etc/zoolet", "/etc/default/zoolet", "/usr/share/doc/zoolet"):
        suite.check(not machine.exists(path), f"{path} is still there")


def installed_by_hand(suite, machine):
    """On the machine that the package has left, without its files and its unit."""
    suite.check("not-found" in shown(machine, "LoadState"), "the unit is still there")
    run("tar", "--extract", "--file", DIST / f"{NAME}.tar.gz", "--directory", machine.root / "root")
    section = (ROOT / "docs/install.md").read_text().split("### A service from the archive")[1]
    commands = re.findall(r"(?m)^# (.*)$", section.split("```")[1])
    suite.check(len(commands) >= 5, f"docs/install.md has only {commands}")
    for command in commands:
        machine.run("sh", "-c", f"cd /root/{NAME} && {command}")
    suite.same(shown(machine, "ActiveState"), "active", "the unit from the archive")
    suite.check("1 of 1 server serve" in machine.run("zooletctl", "status"), "the server does not serve")
    suite.check("zoolet-serve" in machine.run("man", "--where", "zoolet-serve"), "no man page")


main()
