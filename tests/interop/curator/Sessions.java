package interop;

import static interop.Framework.bytes;

import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/** A session that is killed: another connection takes it over and closes it. */
final class Sessions {
    private Sessions() {}

    static void run() throws Exception {
        try (CuratorFramework client = Harness.client(); CuratorFramework other = Harness.client()) {
            BlockingQueue<ConnectionState> states = new LinkedBlockingQueue<>();
            client.getConnectionStateListenable().addListener((from, state) -> states.add(state));
            client.create().withMode(CreateMode.EPHEMERAL).forPath("/curator/plain-ephemeral");
            InterProcessMutex lock = new InterProcessMutex(client, "/curator/locks/killed");
            lock.acquire();
            InterProcessMutex next = new InterProcessMutex(other, "/curator/locks/killed");
            Check.that(!next.acquire(200, TimeUnit.MILLISECONDS), "the lock is held");
            try (PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, false,
                            "/curator/persistent-ephemeral", bytes("1"));
                    LeaderLatch latch = new LeaderLatch(client, "/curator/killed-latch");
                    CuratorCache cache = CuratorCache.build(client, "/curator/killed-cache")) {
                node.start();
                Check.that(node.waitForInitialCreate(10, TimeUnit.SECONDS), "the persistent ephemeral");
                latch.start();
                Check.that(latch.await(10, TimeUnit.SECONDS), "leading");
                client.create().forPath("/curator/killed-cache", bytes("1"));
                cache.start();
                Check.eventually("the cache is filled", () -> cache.size() == 1);
                long before = Harness.sessionOf(client);

                kill(client);

                expect(states, List.of(ConnectionState.LOST, ConnectionState.RECONNECTED));
                long after = Harness.sessionOf(client);
                Check.that(after != before, "a new session");
                Check.that(next.acquire(10, TimeUnit.SECONDS), "the lock of the dead session");
                next.release();
                Harness.sync(client);
                Check.equal(client.checkExists().forPath("/curator/plain-ephemeral"), null,
                        "the ephemeral of the dead session");
                Check.eventually("the persistent ephemeral comes back", () -> {
                    var stat = client.checkExists().forPath("/curator/persistent-ephemeral");
                    return stat != null && stat.getEphemeralOwner() == after;
                });
                Check.that(latch.await(10, TimeUnit.SECONDS), "leading again");
                other.setData().forPath("/curator/killed-cache", bytes("2"));
                Check.eventually("the cache goes on", () ->
                        Caches.content(cache).get("/curator/killed-cache").equals("2"));
            }
        }
    }

    /** What Curator's own KillSession has always done: resume the session elsewhere, and close it. */
    private static void kill(CuratorFramework client) throws Exception {
        ZooKeeper victim = client.getZookeeperClient().getZooKeeper();
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper killer = new ZooKeeper(Harness.CONNECT, Harness.SESSION_MS, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        }, victim.getSessionId(), victim.getSessionPasswd());
        Check.that(connected.await(15, TimeUnit.SECONDS), "the session is resumed by another");
        Check.equal(killer.getSessionId(), victim.getSessionId(), "the resumed session");
        killer.close();
    }

    /** States in this order; a suspended connection may come in between at any time. */
    static void expect(BlockingQueue<ConnectionState> states, List<ConnectionState> expected) throws Exception {
        for (ConnectionState wanted : expected) {
            ConnectionState state;
            do {
                state = states.poll(Check.ON_ITS_WAY_MS, TimeUnit.MILLISECONDS);
                Check.that(state != null, wanted + " never came");
            } while (state == ConnectionState.SUSPENDED
                    || (state == ConnectionState.RECONNECTED && wanted == ConnectionState.LOST));
            Check.equal(state, wanted, "the state of the connection");
        }
    }
}
