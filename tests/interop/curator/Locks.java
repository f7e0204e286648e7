package interop;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.shared.SharedCount;

/** Many holders, or many locks: read-write locks, semaphores, multi-locks. */
final class Locks {
    private static final int CONTENDERS = 4;

    private Locks() {}

    static void run() throws Exception {
        readWrite();
        readWriteContention();
        semaphore();
        semaphoreContention();
        multi();
    }

    private static void readWrite() throws Exception {
        try (CuratorFramework one = Harness.client(); CuratorFramework two = Harness.client()) {
            InterProcessReadWriteLock mine = new InterProcessReadWriteLock(one, "/curator/locks/rw");
            InterProcessReadWriteLock other = new InterProcessReadWriteLock(two, "/curator/locks/rw");
            mine.readLock().acquire();
            Check.that(other.readLock().acquire(10, TimeUnit.SECONDS), "readers share");
            Check.that(!other.writeLock().acquire(200, TimeUnit.MILLISECONDS), "no writer among readers");
            mine.readLock().release();
            other.readLock().release();
            Check.that(other.writeLock().acquire(10, TimeUnit.SECONDS), "a writer after the readers");
            Check.that(!mine.readLock().acquire(200, TimeUnit.MILLISECONDS), "no reader beside a writer");
            Check.that(!mine.writeLock().acquire(200, TimeUnit.MILLISECONDS), "no second writer");
            Check.that(other.readLock().acquire(10, TimeUnit.SECONDS), "a writer may read");
            other.writeLock().release();
            Check.that(mine.readLock().acquire(10, TimeUnit.SECONDS), "the writer has become a reader");
            mine.readLock().release();
            other.readLock().release();
        }
    }

    private static void readWriteContention() throws Exception {
        AtomicInteger readers = new AtomicInteger();
        AtomicInteger writers = new AtomicInteger();
        contend((client, number) -> {
            InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, "/curator/locks/rw-many");
            for (int round = 0; round < 6; round++) {
                if ((round + number) % 3 == 0) {
                    lock.writeLock().acquire();
                    Check.equal(writers.incrementAndGet(), 1, "writers at the same time");
                    Check.equal(readers.get(), 0, "readers beside a writer");
                    Thread.sleep(2);
                    writers.decrementAndGet();
                    lock.writeLock().release();
                } else {
                    lock.readLock().acquire();
                    readers.incrementAndGet();
                    Check.equal(writers.get(), 0, "writers beside a reader");
                    Thread.sleep(2);
                    readers.decrementAndGet();
                    lock.readLock().release();
                }
            }
        });
    }

    private static void semaphore() throws Exception {
        try (CuratorFramework one = Harness.client(); CuratorFramework two = Harness.client()) {
            InterProcessSemaphoreV2 mine = new InterProcessSemaphoreV2(one, "/curator/locks/sem", 3);
            InterProcessSemaphoreV2 other = new InterProcessSemaphoreV2(two, "/curator/locks/sem", 3);
            Collection<Lease> two_ = mine.acquire(2);
            Lease third = other.acquire(10, TimeUnit.SECONDS);
            Check.that(third != null, "the third lease");
            Check.equal(other.acquire(200, TimeUnit.MILLISECONDS), null, "no fourth lease");
            Check.equal(other.getParticipantNodes().size(), 3, "who gave up is not in the list");
            mine.returnAll(two_);
            Lease again = other.acquire(10, TimeUnit.SECONDS);
            Check.that(again != null, "a lease that was returned");
            other.returnLease(again);
            other.returnLease(third);

            try (SharedCount limit = new SharedCount(one, "/curator/sem-limit", 1)) {
                limit.start();
                InterProcessSemaphoreV2 grows = new InterProcessSemaphoreV2(one, "/curator/locks/grows", limit);
                Lease first = grows.acquire();
                Check.equal(grows.acquire(200, TimeUnit.MILLISECONDS), null, "one lease by the shared count");
                limit.setCount(2);
                Lease second = grows.acquire(10, TimeUnit.SECONDS);
                Check.that(second != null, "two leases by the shared count");
                grows.returnAll(List.of(first, second));
            }
        }
    }

    private static void semaphoreContention() throws Exception {
        AtomicInteger holders = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        contend((client, number) -> {
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, "/curator/locks/sem-many", 2);
            for (int round = 0; round < 5; round++) {
                Lease lease = semaphore.acquire();
                int now = holders.incrementAndGet();
                most.accumulateAndGet(now, Math::max);
                Check.that(now <= 2, "leases at the same time: " + now);
                // On a busy machine an acquire may take longer than any hold.
                Check.eventually("both leases are in use at some time", () -> most.get() == 2);
                holders.decrementAndGet();
                semaphore.returnLease(lease);
            }
        });
    }

    private static void multi() throws Exception {
        try (CuratorFramework one = Harness.client(); CuratorFramework two = Harness.client()) {
            List<String> paths = List.of("/curator/locks/multi-a", "/curator/locks/multi-b");
            InterProcessMultiLock both = new InterProcessMultiLock(one, paths);
            InterProcessMutex last = new InterProcessMutex(two, "/curator/locks/multi-b");
            InterProcessMutex first = new InterProcessMutex(two, "/curator/locks/multi-a");
            last.acquire();
            Check.that(!both.acquire(300, TimeUnit.MILLISECONDS), "one of two is not enough");
            Check.that(first.acquire(10, TimeUnit.SECONDS), "what was got has been given back");
            first.release();
            last.release();
            Check.that(both.acquire(10, TimeUnit.SECONDS), "both are free");
            Check.that(!first.acquire(200, TimeUnit.MILLISECONDS), "the first is held");
            Check.that(!last.acquire(200, TimeUnit.MILLISECONDS), "the last is held");
            both.release();
        }
    }

    private interface Contender {
        void run(CuratorFramework client, int number) throws Exception;
    }

    private static void contend(Contender contender) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(CONTENDERS);
        try {
            List<Future<?>> running = new ArrayList<>();
            for (int i = 0; i < CONTENDERS; i++) {
                int number = i;
                running.add(threads.submit(() -> {
                    try (CuratorFramework client = Harness.client()) {
                        contender.run(client, number);
                    }
                    return null;
                }));
            }
            for (Future<?> one : running) {
                Check.done(one);
            }
        } finally {
            threads.shutdownNow();
        }
    }
}
