package interop;

import static interop.Framework.bytes;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Numbers, barriers and groups that several clients share. */
final class Counters {
    private static final int MEMBERS = 4;

    private Counters() {}

    static void run() throws Exception {
        try (CuratorFramework one = Harness.client(); CuratorFramework two = Harness.client()) {
            sharedCount(one, two);
            barrier(one, two);
            group(one, two);
        }
        atomicLong();
        doubleBarrier();
    }

    private static void sharedCount(CuratorFramework one, CuratorFramework two) throws Exception {
        try (SharedCount mine = new SharedCount(one, "/curator/shared", 7);
                SharedCount other = new SharedCount(two, "/curator/shared", 9)) {
            mine.start();
            Harness.sync(two);
            other.start();
            Check.equal(other.getCount(), 7, "the second finds the value of the first");
            AtomicInteger reported = new AtomicInteger();
            other.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader count, int value) {
                    reported.set(value);
                }

                @Override
                public void stateChanged(CuratorFramework client, ConnectionState state) {}
            });
            VersionedValue<Integer> before = other.getVersionedValue();
            Check.that(mine.trySetCount(mine.getVersionedValue(), 8), "set with the version");
            Check.eventually("the other is notified", () -> reported.get() == 8 && other.getCount() == 8);
            Check.that(!other.trySetCount(before, 10), "set with an old version");
        }
    }

    private static void atomicLong() throws Exception {
        inParallel((client, number) -> {
            DistributedAtomicLong count = new DistributedAtomicLong(client, "/curator/atomic",
                    new RetryNTimes(3, 10),
                    PromotedToLock.builder().lockPath("/curator/locks/atomic").timeout(10, TimeUnit.SECONDS).build());
            for (int round = 0; round < 10; round++) {
                // An increment that does not succeed has changed nothing: the recipe reads without
                // a sync, and at a follower that lags it gives up after its retries. So its users
                // have to ask, and the sum shows whether the answers were true.
                AtomicValue<Long> value = count.increment();
                while (!value.succeeded()) {
                    value = count.increment();
                }
                Check.equal(value.postValue(), value.preValue() + 1, "by one");
            }
        });
        try (CuratorFramework client = Harness.client()) {
            Harness.sync(client);
            DistributedAtomicLong count =
                    new DistributedAtomicLong(client, "/curator/atomic", new RetryNTimes(3, 10));
            Check.equal(count.get().postValue(), 10L * MEMBERS, "the sum of all increments");
            Check.that(!count.compareAndSet(1L, 2L).succeeded(), "compare with a wrong value");
            Check.that(count.compareAndSet(10L * MEMBERS, 0L).succeeded(), "compare with the right one");
        }
    }

    private static void barrier(CuratorFramework one, CuratorFramework two) throws Exception {
        DistributedBarrier mine = new DistributedBarrier(one, "/curator/barrier");
        mine.setBarrier();
        Harness.sync(two);
        DistributedBarrier other = new DistributedBarrier(two, "/curator/barrier");
        Check.that(!other.waitOnBarrier(200, TimeUnit.MILLISECONDS), "the barrier is down");
        mine.removeBarrier();
        Check.that(other.waitOnBarrier(10, TimeUnit.SECONDS), "the barrier is up");
    }

    private static void doubleBarrier() throws Exception {
        AtomicInteger entered = new AtomicInteger();
        AtomicInteger leaving = new AtomicInteger();
        inParallel((client, number) -> {
            DistributedDoubleBarrier barrier =
                    new DistributedDoubleBarrier(client, "/curator/double-barrier", MEMBERS);
            Thread.sleep(20L * number);
            entered.incrementAndGet();
            Check.that(barrier.enter(15, TimeUnit.SECONDS), "enter");
            Check.equal(entered.get(), MEMBERS, "no member goes on before all have come");
            Thread.sleep(20L * number);
            leaving.incrementAndGet();
            Check.that(barrier.leave(15, TimeUnit.SECONDS), "leave");
            Check.equal(leaving.get(), MEMBERS, "no member leaves before all are ready");
        });
    }

    private static void group(CuratorFramework one, CuratorFramework two) throws Exception {
        try (GroupMember mine = new GroupMember(one, "/curator/group", "one", bytes("1"))) {
            mine.start();
            GroupMember other = new GroupMember(two, "/curator/group", "two", bytes("2"));
            other.start();
            Check.eventually("both are members", () -> mine.getCurrentMembers().keySet().containsAll(List.of("one", "two")));
            other.close();
            Check.eventually("one is left", () -> mine.getCurrentMembers().size() == 1);
        }
    }

    private interface Member {
        void run(CuratorFramework client, int number) throws Exception;
    }

    private static void inParallel(Member member) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(MEMBERS);
        try {
            List<Future<?>> running = new ArrayList<>();
            for (int i = 0; i < MEMBERS; i++) {
                int number = i;
                running.add(threads.submit(() -> {
                    try (CuratorFramework client = Harness.client()) {
                        member.run(client, number);
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
