"""Contenders over kazoo, and their talk with the referee (see tests/src/contenders)."""

import os
import random
import sys
import threading
import time
import traceback

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

SERVERS = os.environ["ZK_CONNECT"]
SESSION_TIMEOUT_S = int(os.environ["ZK_SESSION_TIMEOUT_MS"]) / 1000
PERMITS = 2


def fail():
    """Ends the program: other contenders may wait for what this one holds."""
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)


class Contest:
    def __init__(self, contended):
        self.go = threading.Event()
        self.stopped = False
        self.answers = [threading.Semaphore(0) for _ in contended]
        self.ready = [threading.Event() for _ in contended]
        self.output = threading.Lock()
        self.contenders = [
            threading.Thread(target=self.contend, args=(number, *word.split(":", 1)))
            for number, word in enumerate(contended)
        ]

    def run(self):
        for contender in self.contenders:
            contender.start()
        threading.Thread(target=self.listen, daemon=True).start()
        for ready in self.ready:
            ready.wait()
        self.say("READY")
        for contender in self.contenders:
            contender.join()
        self.say("DONE")

    def say(self, line):
        with self.output:
            print(line, flush=True)

    def listen(self):
        for line in sys.stdin:
            words = line.split()
            if words == ["GO"]:
                self.go.set()
            elif words == ["STOP"]:
                self.stopped = True
            else:
                self.answers[int(words[1])].release()

    def contend(self, number, recipe, path):
        try:
            client = KazooClient(
                hosts=SERVERS,
                timeout=SESSION_TIMEOUT_S,
                connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=0.5),
                command_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=0.5),
            )
            client.start(timeout=30)
            take_turn = self.recipe(client, recipe, path, number)
            self.ready[number].set()
            self.go.wait()
            while not self.stopped:
                take_turn()
                pause()
            client.stop()
            client.close()
        except BaseException:
            fail()

    def recipe(self, client, recipe, path, number):
        """What a contender does for one turn."""
        if recipe == "election":
            # The election runs its leader, who resigns by returning.
            return lambda: client.Election(path).run(self.hold, number, "exclusive")
        lock, mode = {
            "mutex": lambda: (client.Lock(path), "exclusive"),
            "write": lambda: (client.WriteLock(path), "exclusive"),
            "read": lambda: (client.ReadLock(path), "shared"),
            "semaphore": lambda: (client.Semaphore(path, max_leases=PERMITS), "shared"),
        }[recipe]()

        def turn():
            with lock:
                self.hold(number, mode)

        def fenced_turn():
            with lock:
                # The transaction that created the lock's znode: a number that grows with each grant.
                stat = client.retry(client.exists, f"{path}/{lock.node}")
                # Without its znode the lock was lost before its token was known.
                if stat is not None:
                    self.hold(number, mode, stat.czxid)

        return fenced_turn if recipe == "mutex" else turn

    def hold(self, number, mode, token=None):
        if token is None:
            self.report(f"HELD {number} {mode}", number)
            pause()
        else:
            self.report(f"HELD {number} {mode} {token}", number)
            pause()
            self.report(f"WRITE {number} {token}", number)
        self.report(f"FREE {number}", number)

    def report(self, line, number):
        self.say(line)
        self.answers[number].acquire()


def pause():
    time.sleep(random.uniform(0.001, 0.015))


if __name__ == "__main__":
    try:
        Contest(sys.argv[1:]).run()
    except BaseException:
        fail()
