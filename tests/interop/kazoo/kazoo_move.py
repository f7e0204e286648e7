"""Holds a lock of kazoo, and waits for it, while all servers are replaced by others with their data."""

import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

SESSION_SECONDS = 60
LOCK = "/locks/kazoo"
checks = 0


def check(what, so):
    global checks
    checks += 1
    if not so:
        print("not so:", what)
        sys.exit(1)


def connect():
    client = KazooClient(hosts=os.environ["ZK_CONNECT"], timeout=SESSION_SECONDS)
    client.start(timeout=30)
    return client


holder, waiter = connect(), connect()
states = []
holder.add_listener(states.append)
held = holder.Lock(LOCK, "holder")
check("the lock is free", held.acquire(timeout=30))
acquired = threading.Event()


def wait():
    if waiter.Lock(LOCK, "waiter").acquire(timeout=120):
        acquired.set()


threading.Thread(target=wait, daemon=True).start()
deadline = time.monotonic() + 30
while len(held.contenders()) < 2 and time.monotonic() < deadline:
    time.sleep(0.05)
check("both are in the queue", held.contenders() == ["holder", "waiter"])
session = holder.client_id[0]

print("LOSE SERVER all of them", flush=True)
check("they are replaced", sys.stdin.readline().startswith("LOST"))

children = holder.retry(holder.get_children, LOCK)
check("the queue is as it was", len(children) == 2)
check("it is the same session", holder.client_id[0] == session)
check("the session was never lost", KazooState.LOST not in states)
check("one lock, one holder", held.is_acquired and not acquired.is_set())
held.release()
check("the waiter is woken", acquired.wait(30))
holder.stop()
waiter.stop()
print(f"OK {checks} checks", flush=True)
