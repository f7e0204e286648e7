"""The release archive: unpacked, its programs run in a directory that holds nothing else."""

import os
import re

from common import DIST, NAME, ROOT, Process, Suite, add_devices, free_port, run, until

NEEDS = ("bash", "fish", "man", "readelf", "sha256sum", "zsh")
MAN_PAGES_MIN = 30
DOCUMENTS_MIN = 10


def main():
    with Suite("archive", NEEDS) as suite:
        run("sha256sum", "--check", f"{NAME}.tar.gz.sha256", cwd=DIST)
        run("tar", "--extract", "--file", DIST / f"{NAME}.tar.gz", cwd=suite.directory)
        tree = suite.directory / NAME
        programs_are_static(suite, tree)
        a_server_runs_without_any_library(suite, tree)
        man_pages_are_well_formed(suite, tree)
        shells_complete(suite, tree)
        documents_are_there(suite, tree)
        licenses_are_there(suite, tree)


def programs_are_static(suite, tree):
    for program in ("zoolet", "zooletctl"):
        file = tree / "bin" / program
        headers = run("readelf", "--wide", "--program-headers", "--dynamic", file)
        suite.check("INTERP" not in headers, f"{program} needs a program interpreter")
        suite.check("NEEDED" not in headers, f"{program} needs shared libraries")
        suite.check(str(ROOT).encode() not in file.read_bytes(), f"{program} names {ROOT}")


def a_server_runs_without_any_library(suite, tree):
    """glibc takes names from the modules of nsswitch.conf, which a static program cannot load."""
    root = suite.directory / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/nsswitch.conf").write_text("hosts: myhostname resolve\n")
    (root / "etc/hosts").write_text("127.0.0.1 zk-host\n")
    add_devices(root)
    for program in ("zoolet", "zooletctl"):
        os.link(tree / "bin" / program, root / program)
    port = free_port()
    (root / "cluster.toml").write_text(
        f'[[server]]\nid = 1\nclient = "zk-host:{port}"\ndata_dir = "/data"\n'
    )
    server = Process(suite, "server", ["chroot", root, "/zoolet", "serve", "--config", "/cluster.toml"])
    ctl = ["chroot", root, "/zooletctl", "--servers", f"zk-host:{port}"]
    until("the server serves", lambda: run(*ctl, "status", "--named"), 30)
    run(*ctl, "create", "/config", "on")
    suite.same(run(*ctl, "get", "/config"), "on\n", "what was written")
    suite.same(server.stop(), 0, "the exit code of a server that was stopped")


def man_pages_are_well_formed(suite, tree):
    pages = sorted((tree / "share/man/man1").iterdir())
    suite.check(len(pages) >= MAN_PAGES_MIN, f"only {len(pages)} man pages")
    for page in pages:
        shown = run("man", "--warnings", "--local-file", page, env={**os.environ, "MANWIDTH": "80"},
                    stderr=-2)
        suite.check(": warning" not in shown and "NAME" in shown, f"{page.name}: {shown[:300]}")
    names = {page.name for page in pages}
    for page in ("zoolet.1", "zoolet-serve.1", "zooletctl.1", "zooletctl-status.1"):
        suite.check(page in names, f"no man page {page}")
    suite.check(not any("man-pages" in name for name in names), "a hidden command has a man page")


def shells_complete(suite, tree):
    share = tree / "share"
    bash = """source {file}
COMP_WORDS=({words}) COMP_CWORD=1 COMPREPLY=()
_{program} {program} {last} {program}
echo "${{COMPREPLY[@]}}"
"""
    for program, begun, whole in (("zoolet", "ser", "serve"), ("zooletctl", "stat", "status")):
        file = share / "bash-completion/completions" / program
        words = f"{program} {begun}"
        script = bash.format(file=file, words=words, program=program, last=begun)
        suite.check(whole in run("bash", "-c", script).split(), f"bash completes {words}")
        fish = f"source {share}/fish/vendor_completions.d/{program}.fish; complete -C '{words}'"
        suite.check(re.search(rf"^{whole}\b", run("fish", "--no-config", "-c", fish), re.M),
                    f"fish completes {words}")
        zsh = f"""fpath=({share}/zsh/site-functions $fpath)
autoload -Uz compinit && compinit -D -u && echo $_comps[{program}] && autoload +X _{program}"""
        suite.same(run("zsh", "-f", "-c", zsh).strip(), f"_{program}", "the completion of zsh")


def documents_are_there(suite, tree):
    """What the programs, their man pages and the other files refer to."""
    files = [*(tree / "share/man/man1").iterdir(), *tree.glob("*.*"), *tree.glob("*/*.yaml")]
    files += [tree / "bin/zoolet", tree / "bin/zooletctl"]
    named = set()
    for file in files:
        text = file.read_bytes().decode(errors="replace")
        named.update(re.findall(r"\bdocs/[a-z]+\.md\b", text))
    suite.check(len(named) >= DOCUMENTS_MIN, f"only {sorted(named)} are named")
    for name in sorted(named):
        suite.check((tree / name).exists(), f"no {name}")


def licenses_are_there(suite, tree):
    text = (tree / "THIRD-PARTY.txt").read_text()
    for name in ("tokio", "openraft", "clap", "rustls", "rustyline"):
        suite.check(re.search(rf"^{name} [0-9]", text, re.M), f"{name} is not in THIRD-PARTY.txt")
    suite.check("Permission is hereby granted" in text, "no text of a license")
    suite.check("Apache License" in (tree / "LICENSE").read_text(), "no license")


main()
