"""Every call of kazoo once or twice, for the golden vectors: see recorder.rs.

Lines on stdout name the server that the harness has to stop, as foreign.rs has it.
"""

import os
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo import exceptions
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

SERVERS = os.environ["ZK_CONNECT"]
WITHIN_S = 30
checks = 0


def holds(fact, what):
    global checks
    if not fact:
        sys.exit(f"FAILED: {what}")
    checks += 1


def fails(error, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except error:
        holds(True, "")
        return
    sys.exit(f"FAILED: {call} {arguments} did not raise {error}")


def exchange(line):
    print(line, flush=True)
    return sys.stdin.readline()


def creates(zk):
    zk.create("/k", b"data")
    zk.create("/k/empty", b"")
    zk.create("/k/ephemeral", b"e", ephemeral=True)
    zk.create("/k/s-", b"s", sequence=True)
    zk.create("/k/es-", b"es", ephemeral=True, sequence=True)
    path, stat = zk.create("/k/stat", "ä€".encode(), include_data=True)
    holds(path == "/k/stat" and stat.data_length == 5, "create2")
    fails(exceptions.NodeExistsError, zk.create, "/k")
    fails(exceptions.NoNodeError, zk.create, "/no/parent")
    fails(exceptions.NoChildrenForEphemeralsError, zk.create, "/k/ephemeral/x")


def reads_and_writes(zk):
    holds(zk.exists("/k") and not zk.exists("/absent"), "exists")
    holds(zk.get("/k")[0] == b"data" and zk.get("/k/empty")[0] == b"", "get")
    fails(exceptions.NoNodeError, zk.get, "/absent")
    holds(len(zk.get_children("/k")) == 5, "children")
    holds(len(zk.get_children("/k", include_data=True)[0]) == 5, "children and Stat")
    zk.sync("/k")
    zk.set("/k", b"more", version=0)
    fails(exceptions.BadVersionError, zk.set, "/k", b"", version=7)
    zk.create("/k/gone")
    zk.delete("/k/gone", version=0)
    fails(exceptions.NoNodeError, zk.delete, "/k/gone")
    fails(exceptions.NotEmptyError, zk.delete, "/k")


def transactions(zk):
    good = zk.transaction()
    good.create("/k/m", b"m")
    good.set_data("/k/m", b"n", version=0)
    good.check("/k/m", version=1)
    good.delete("/k/m", version=1)
    results = good.commit()
    holds(not any(isinstance(result, Exception) for result in results), results)
    bad = zk.transaction()
    bad.create("/k/undone")
    bad.check("/k", version=99)
    bad.delete("/k/empty")
    results = bad.commit()
    holds(isinstance(results[1], exceptions.BadVersionError), results)


def access(zk):
    zk.add_auth("digest", "user:secret")
    mine = [make_digest_acl("user", "secret", all=True)]
    zk.create("/k/mine", acl=mine)
    holds(zk.get_acls("/k/mine")[0] == mine, "get_acls")
    zk.set_acls("/k/mine", mine + [make_acl("ip", "127.0.0.1", read=True)], version=0)
    fails(exceptions.InvalidACLError, zk.set_acls, "/k/mine", [make_acl("no", "x", all=True)])
    zk.set_acls("/k/mine", mine)
    other = KazooClient(SERVERS, timeout=WITHIN_S)
    other.start()
    fails(exceptions.NoAuthError, other.get, "/k/mine")
    fails(exceptions.AuthFailedError, other.add_auth, "nonsense", "x")
    other.stop()
    other.close()


def watches(zk):
    fired = threading.Semaphore(0)

    def watch(event):
        fired.release()

    zk.exists("/k/w", watch=watch)
    zk.create("/k/w")
    zk.get("/k/w", watch=watch)
    zk.set("/k/w", b"x")
    zk.get_children("/k/w", watch=watch)
    zk.create("/k/w/c")
    zk.exists("/k/w/c", watch=watch)
    zk.delete("/k/w/c")
    for _ in range(4):
        holds(fired.acquire(timeout=WITHIN_S), "a watch fires")


def reconnect(zk):
    back = threading.Event()

    def listen(state):
        if state == KazooState.CONNECTED:
            back.set()

    zk.add_listener(listen)
    exchange("LOSE SERVER " + SERVERS)
    exchange("BRING BACK")
    holds(back.wait(WITHIN_S), "back")
    holds(zk.exists("/k"), "exists")
    # A client says a ping when it has been silent for a third of the session's time.
    time.sleep(11)


client = KazooClient(SERVERS, timeout=WITHIN_S)
client.start()
creates(client)
reads_and_writes(client)
transactions(client)
access(client)
watches(client)
fails(exceptions.ReconfigDisabledError, client.reconfig, "server.9=127.0.0.1:1:2;3", None, None)
reconnect(client)
client.stop()
client.close()
print(f"OK {checks} checks", flush=True)
