"""`cargo install` of both programs into an empty root."""

from common import ROOT, Process, Suite, free_port, run, until

# The profile of development, whose libraries are built already, and all of ours without optimizations, also
# those to which Cargo.toml gives some: what is tried is the packages' own definition, the same for each
# profile.
PACKAGES = ("client", "history", "jute", "replica", "server", "storage")
HOW = ("--locked", "--offline", "--debug", "--target-dir", ROOT / "target",
       *(f"--config=profile.dev.package.zoolet-{package}.opt-level=0" for package in PACKAGES))


def main():
    with Suite("install", ("cargo",)) as suite:
        root = suite.directory / "root"
        for package in ("server/cli", "client/ctl"):
            run("cargo", "install", "--path", ROOT / package, "--root", root, *HOW, cwd=ROOT,
                timeout=1200)
        programs = sorted(file.name for file in (root / "bin").iterdir())
        suite.same(programs, ["zoolet", "zooletctl"], "the programs")
        runs(suite, root / "bin")


def runs(suite, programs):
    port = free_port()
    config = suite.directory / "cluster.toml"
    config.write_text(
        f'[[server]]\nid = 1\nclient = "127.0.0.1:{port}"\ndata_dir = "{suite.directory}/data"\n'
    )
    server = Process(suite, "server", [programs / "zoolet", "serve", "--config", config])
    ctl = (programs / "zooletctl", "--servers", f"127.0.0.1:{port}")
    until("the server serves", lambda: run(*ctl, "status", "--named"))
    run(*ctl, "create", "/config", "on")
    suite.same(run(*ctl, "get", "/config"), "on\n", "what was written")
    suite.same(server.stop(), 0, "the exit code of a server that was stopped")


main()
