"""kazoo with SASL: prints what becomes of logins and of access, a line each."""

import os
import subprocess
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import InvalidACLError, KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL, Id, OPEN_ACL_UNSAFE, Permissions

PASSWORDS = {
    "bob": 'bob "the" builder',
    "eve": "eve-secret",
    "admin": "admin-secret",
    "super": "super-secret",
    "花": "子",
    "zoé": "ñandú",
}
SERVERS = os.environ["ZK_CONNECT"].split(",")


def client(user=None, password=None, server=0, **more):
    if user:
        more["sasl_options"] = {
            "mechanism": "DIGEST-MD5",
            "username": user,
            "password": password or PASSWORDS[user],
        }
    return KazooClient(hosts=SERVERS[server], **more)


def outcome(call):
    """What a call comes to: a word."""
    try:
        call()
        return "ok"
    except (KazooException, KazooTimeoutError) as error:
        return type(error).__name__


def go_on(user, server, session, password):
    """Reads in a session, and leaves it open."""
    more = {"client_id": (int(session), bytes.fromhex(password))} if session else {}
    going_on = connected(user, server=int(server), **more)
    going_on.sync("/bob")
    read = outcome(lambda: going_on.get("/bob"))
    session, password = going_on.client_id
    print(session, password.hex(), read, flush=True)
    os._exit(0)


def say(what, result):
    print(f"{what}: {result}", flush=True)


def connected(user=None, **more):
    connected = client(user, **more)
    connected.start(timeout=30)
    return connected


def acl(user):
    return [ACL(Permissions.ALL, Id("sasl", user))]


if len(sys.argv) > 1:
    go_on(*sys.argv[1:])


def login(user, password=None):
    """How a login ends: kazoo notes that it is refused at the start, or with the first request."""
    connection = client(user, password)
    try:
        connection.start(timeout=5)
        connection.get("/")
        return "ok"
    except (KazooException, KazooTimeoutError):
        return "refused"
    finally:
        connection.stop()


# kazoo reads every password as UTF-8. Servers, as RFC 2831 has it, take a name with letters of
# ISO 8859-1 alone in that encoding, so that zoé cannot log in.
for user in ["bob", "eve", "花", "zoé"]:
    say(f"login of {user}", login(user))
for user, password in [("bob", "wrong"), ("mallory", "wrong")]:
    say(f"login of {user} with {password}", login(user, password))

bob = connected("bob")
for _ in range(200):
    try:
        bob.create("/bob", b"of bob", acl=acl("bob"))
        break
    except InvalidACLError:
        # Servers of zoolet agree on the feature within a second.
        time.sleep(0.1)
for name in ["bob@REALM", "bob/host@REALM", "a/b/c", "a@b@c", "a/b/c@d", "@"]:
    create = lambda: bob.create("/name-", acl=acl(name) + OPEN_ACL_UNSAFE, sequence=True)
    say(f"an ACL of {name!r}", outcome(create))
bob.create("/auth", acl=[ACL(Permissions.READ | Permissions.ADMIN, Id("auth", ""))])
say("the ACL of auth", [(a.perms, a.id.scheme, a.id.id) for a in bob.get_acls("/auth")[0]])
say("bob writes", outcome(lambda: bob.set("/bob", b"again")))

for server in range(len(SERVERS)):
    for user in [None, "eve", "admin", "super", "花"]:
        other = connected(user, server=server)
        other.sync("/bob")
        say(f"{user} reads on {server}", outcome(lambda: other.get("/bob")))
        say(f"{user} writes on {server}", outcome(lambda: other.set("/bob", b"x")))
        other.stop()

# The identity belongs to the connection, not to the session. Each process goes on with the session
# of the one before, which ends without closing it.
session = ["", ""]
for user, server in [("bob", 0), ("bob", len(SERVERS) - 1), ("", 0)]:
    command = [sys.executable, __file__, user, str(server), *session]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    say("the session goes on", session[0] in ["", answer[0]])
    say(f"{user or None} reads in it", answer[2])
    session = answer[:2]
print("end", flush=True)
os._exit(0)
