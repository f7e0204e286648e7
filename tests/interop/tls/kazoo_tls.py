"""kazoo over TLS: sessions, an ACL of a certificate, a watch, the loss of a server."""

import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import InvalidACLError, NoAuthError
from kazoo.security import ACL, Id, Permissions

checks = 0


def check(what, so):
    global checks
    checks += 1
    if not so:
        print("not so:", what)
        sys.exit(1)


def connect(**more):
    client = KazooClient(
        hosts=os.environ["ZK_CONNECT"],
        use_ssl=True,
        ca=os.environ["TLS_CA"],
        certfile=os.environ["TLS_CERT"],
        keyfile=os.environ["TLS_KEY"],
        **more,
    )
    client.start(timeout=30)
    return client


client = connect()
acl = [ACL(Permissions.ALL, Id("x509", "CN=client"))]
for _ in range(100):
    try:
        client.create("/kazoo", b"one", acl=acl)
        break
    except InvalidACLError:
        # The servers agree on the feature within a second.
        time.sleep(0.1)
check("the znode is readable", client.get("/kazoo")[0] == b"one")

stranger = KazooClient(hosts=os.environ["ZK_CONNECT"])
stranger.start(timeout=30)
try:
    stranger.get("/kazoo")
    check("a client without a certificate is refused", False)
except NoAuthError:
    check("a client without a certificate is refused", True)
stranger.stop()

seen = threading.Event()
client.get("/kazoo", watch=lambda event: seen.set())
client.set("/kazoo", b"two")
check("the watch fires", seen.wait(10))

long = os.urandom(900_000)
client.set("/kazoo", long)
check("long data comes back", client.get("/kazoo")[0] == long)

session = client.client_id[0]
print("LOSE SERVER", flush=True)
check("a server is lost", sys.stdin.readline().startswith("LOST"))
check("the session goes on", client.retry(client.get, "/kazoo")[0] == long)
check("it is the same session", client.client_id[0] == session)
print("BRING BACK", flush=True)
check("the server is back", sys.stdin.readline().startswith("BACK"))
client.stop()
print(f"OK {checks} checks", flush=True)
