package interop;

import static interop.Framework.bytes;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.zookeeper.data.Stat;

/** One holder at a time: InterProcessMutex and InterProcessSemaphoreMutex. */
final class Mutexes {
    private static final int CONTENDERS = 4;
    private static final int ROUNDS = 8;

    private Mutexes() {}

    /** Makes a lock on the path for one client. */
    interface Maker {
        InterProcessLock make(CuratorFramework client, String path);
    }

    static void run() throws Exception {
        exclude("mutex", InterProcessMutex::new);
        exclude("semaphore-mutex", InterProcessSemaphoreMutex::new);
        reentrancy();
        timeout();
        revocation();
        deadHolder();
    }

    /** Read, then write without a version: only mutual exclusion keeps the count right. */
    static void exclude(String name, Maker maker) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(CONTENDERS);
        List<CuratorFramework> clients = new ArrayList<>();
        try {
            for (int i = 0; i < CONTENDERS; i++) {
                clients.add(Harness.client());
            }
            String counter = "/curator/count-" + name;
            clients.get(0).create().forPath(counter, bytes("0"));
            AtomicInteger inside = new AtomicInteger();
            List<Future<?>> contenders = new ArrayList<>();
            for (CuratorFramework client : clients) {
                InterProcessLock lock = maker.make(client, "/curator/locks/" + name);
                contenders.add(threads.submit(() -> {
                    for (int round = 0; round < ROUNDS; round++) {
                        lock.acquire();
                        Check.equal(inside.incrementAndGet(), 1, name + ": holders at the same time");
                        Harness.sync(client);
                        int count = Integer.parseInt(Framework.text(client, counter));
                        client.setData().forPath(counter, bytes("" + (count + 1)));
                        inside.decrementAndGet();
                        lock.release();
                    }
                    return null;
                }));
            }
            for (Future<?> contender : contenders) {
                Check.done(contender);
            }
            CuratorFramework client = clients.get(0);
            Harness.sync(client);
            Check.equal(Framework.text(client, counter), "" + CONTENDERS * ROUNDS, name + ": the count");
            Stat stat = client.checkExists().forPath(counter);
            Check.equal(stat.getVersion(), CONTENDERS * ROUNDS, name + ": the counter's version");
            Check.eventually(name + ": nothing stays in the queue, and its container goes",
                    () -> client.checkExists().forPath("/curator/locks/" + name) == null);
        } finally {
            threads.shutdownNow();
            clients.forEach(CuratorFramework::close);
        }
    }

    private static void reentrancy() throws Exception {
        try (CuratorFramework client = Harness.client(); CuratorFramework other = Harness.client()) {
            InterProcessMutex lock = new InterProcessMutex(client, "/curator/locks/again");
            lock.acquire();
            Check.that(lock.acquire(1, TimeUnit.SECONDS), "the holder gets it again");
            Check.equal(lock.getParticipantNodes().size(), 1, "one znode for both");
            Check.that(lock.isOwnedByCurrentThread(), "owned by this thread");
            lock.release();
            InterProcessMutex waiting = new InterProcessMutex(other, "/curator/locks/again");
            Check.that(!waiting.acquire(200, TimeUnit.MILLISECONDS), "released once of twice");
            lock.release();
            Check.that(waiting.acquire(10, TimeUnit.SECONDS), "released twice of twice");
            waiting.release();
            Check.fails(IllegalMonitorStateException.class, () -> {
                waiting.release();
                return null;
            }, "release what is not held");
        }
    }

    /** A wait that is given up leaves nothing in the queue. */
    private static void timeout() throws Exception {
        try (CuratorFramework client = Harness.client(); CuratorFramework other = Harness.client()) {
            InterProcessMutex lock = new InterProcessMutex(client, "/curator/locks/brief");
            lock.acquire();
            InterProcessMutex waiting = new InterProcessMutex(other, "/curator/locks/brief");
            Check.that(!waiting.acquire(200, TimeUnit.MILLISECONDS), "a held lock is not granted");
            Harness.sync(client);
            Check.equal(lock.getParticipantNodes().size(), 1, "who gave up is not in the queue");
            lock.release();
        }
    }

    private static void revocation() throws Exception {
        try (CuratorFramework client = Harness.client(); CuratorFramework other = Harness.client()) {
            InterProcessMutex lock = new InterProcessMutex(client, "/curator/locks/revoked");
            CountDownLatch asked = new CountDownLatch(1);
            lock.makeRevocable(held -> asked.countDown());
            lock.acquire();
            Harness.sync(other);
            Collection<String> queue = new InterProcessMutex(other, "/curator/locks/revoked").getParticipantNodes();
            Check.equal(queue.size(), 1, "the holder is seen");
            Revoker.attemptRevoke(other, queue.iterator().next());
            Check.that(asked.await(15, TimeUnit.SECONDS), "the holder is asked to release");
            lock.release();
        }
    }

    /** The end of a session ends its lock. */
    private static void deadHolder() throws Exception {
        try (CuratorFramework client = Harness.client()) {
            CuratorFramework dying = Harness.client();
            new InterProcessMutex(dying, "/curator/locks/dead").acquire();
            InterProcessMutex lock = new InterProcessMutex(client, "/curator/locks/dead");
            Check.that(!lock.acquire(200, TimeUnit.MILLISECONDS), "held by another");
            dying.close();
            Check.that(lock.acquire(15, TimeUnit.SECONDS), "granted when the holder is gone");
            lock.release();
        }
    }
}
