package contest;

import java.util.Comparator;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** The two classic locks over nothing but ZooKeeper's own client. */
final class Plain {
    private static final byte[] NO_DATA = new byte[0];

    private Plain() {
    }

    public static void main(String[] arguments) throws Exception {
        Contest.run(Plain::open, arguments);
    }

    private static Contest.Lock open(String recipe, String path) throws Exception {
        ZooKeeper zk = connect();
        switch (recipe) {
            case "one-node":
                return new OneNode(zk, path);
            case "mutex":
                return new Sequential(zk, path);
            default:
                throw new IllegalArgumentException(recipe);
        }
    }

    private static ZooKeeper connect() throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(Contest.SERVERS, Contest.SESSION_TIMEOUT_MS, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        connected.await();
        return zk;
    }

    /** One call to the server. */
    private interface Call<T> {
        T make() throws KeeperException, InterruptedException;
    }

    /** Repeats a call that may be made twice until its reply is not lost. */
    private static <T> T repeat(Call<T> call) throws KeeperException, InterruptedException {
        while (true) {
            try {
                return call.make();
            } catch (KeeperException.ConnectionLossException lost) {
                Thread.sleep(50);
            }
        }
    }

    private static void delete(ZooKeeper zk, String path) throws Exception {
        repeat(() -> {
            try {
                zk.delete(path, -1);
            } catch (KeeperException.NoNodeException gone) {
                // A lost reply: an earlier attempt has deleted it.
            }
            return null;
        });
    }

    /** Ends with the next event, also with that of a lost connection. */
    private static final class Event implements Watcher {
        private final CountDownLatch came = new CountDownLatch(1);

        @Override
        public void process(WatchedEvent event) {
            came.countDown();
        }

        void await() throws InterruptedException {
            came.await();
        }
    }

    /** The session that creates the one ephemeral znode has the lock; all others watch it. */
    private static final class OneNode implements Contest.Lock {
        private final ZooKeeper zk;
        private final String path;

        OneNode(ZooKeeper zk, String path) {
            this.zk = zk;
            this.path = path;
        }

        @Override
        public String acquire() throws Exception {
            while (true) {
                try {
                    zk.create(path, NO_DATA, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
                    return Contest.EXCLUSIVE;
                } catch (KeeperException.NodeExistsException held) {
                    Event event = new Event();
                    Stat holder = repeat(() -> zk.exists(path, event));
                    if (holder != null && holder.getEphemeralOwner() == zk.getSessionId()) {
                        return Contest.EXCLUSIVE;
                    }
                    if (holder != null) {
                        event.await();
                    }
                } catch (KeeperException.ConnectionLossException lost) {
                    Thread.sleep(50);
                }
            }
        }

        @Override
        public void release() throws Exception {
            do {
                try {
                    zk.delete(path, -1);
                    return;
                } catch (KeeperException.NoNodeException gone) {
                    return;
                } catch (KeeperException.ConnectionLossException lost) {
                    Thread.sleep(50);
                }
                // If the lost delete was carried out, the znode may be another's by now.
            } while (isHeld());
        }

        private boolean isHeld() throws Exception {
            Stat holder = repeat(() -> {
                sync();
                return zk.exists(path, false);
            });
            return holder != null && holder.getEphemeralOwner() == zk.getSessionId();
        }

        /** Waits until the connected server has caught up: it may not know of the lost delete yet. */
        private void sync() throws KeeperException, InterruptedException {
            CountDownLatch done = new CountDownLatch(1);
            AtomicInteger code = new AtomicInteger();
            zk.sync(path, (result, synced, context) -> {
                code.set(result);
                done.countDown();
            }, null);
            done.await();
            if (code.get() != KeeperException.Code.OK.intValue()) {
                throw KeeperException.create(KeeperException.Code.get(code.get()), path);
            }
        }

        @Override
        public void close() throws Exception {
            zk.close();
        }
    }

    /** The queue of ephemeral sequential znodes, of which each watches the one before it. */
    private static final class Sequential implements Contest.Lock {
        private final ZooKeeper zk;
        private final String path;
        private String own;

        Sequential(ZooKeeper zk, String path) throws Exception {
            this.zk = zk;
            this.path = path;
            repeat(() -> {
                try {
                    zk.create(path, NO_DATA, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                } catch (KeeperException.NodeExistsException there) {
                    // Somebody else's, which is as good.
                }
                return null;
            });
        }

        @Override
        public String acquire() throws Exception {
            enqueue();
            while (true) {
                List<String> queue = queue();
                int place = queue.indexOf(own);
                if (place < 0) {
                    throw new IllegalStateException(own + " is gone");
                }
                if (place == 0) {
                    return Contest.EXCLUSIVE;
                }
                Event event = new Event();
                String before = path + "/" + queue.get(place - 1);
                if (repeat(() -> zk.exists(before, event)) != null) {
                    event.await();
                }
            }
        }

        /** The name tells the attempt, so that a znode whose creation was not answered is found. */
        private void enqueue() throws Exception {
            String attempt = UUID.randomUUID().toString();
            while (true) {
                try {
                    String created = zk.create(path + "/" + attempt + "-", NO_DATA,
                        ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
                    own = created.substring(path.length() + 1);
                    return;
                } catch (KeeperException.ConnectionLossException lost) {
                    for (String name : queue()) {
                        if (name.startsWith(attempt)) {
                            own = name;
                            return;
                        }
                    }
                }
            }
        }

        private List<String> queue() throws Exception {
            List<String> names = repeat(() -> zk.getChildren(path, false));
            names.sort(Comparator.comparing(name -> name.substring(name.lastIndexOf('-'))));
            return names;
        }

        @Override
        public void release() throws Exception {
            delete(zk, path + "/" + own);
        }

        @Override
        public void close() throws Exception {
            zk.close();
        }
    }
}
