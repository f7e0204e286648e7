package contest;

import java.util.Arrays;
import org.apache.curator.ensemble.fixed.FixedEnsembleProvider;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.data.Stat;

/** Curator's lock recipes; the same source for its oldest and its newest version. */
final class Curated {
    private static final int PERMITS = 2;

    private Curated() {
    }

    public static void main(String[] arguments) throws Exception {
        Contest.run(Curated::open, arguments);
    }

    private static Contest.Lock open(String recipe, String path) throws Exception {
        CuratorFramework curator = CuratorFrameworkFactory.builder()
            .ensembleProvider(new GivenServers())
            .sessionTimeoutMs(Contest.SESSION_TIMEOUT_MS)
            .connectionTimeoutMs(10_000)
            .retryPolicy(new RetryNTimes(300, 100))
            .build();
        curator.start();
        curator.blockUntilConnected();
        switch (recipe) {
            case "mutex":
                return new Fenced(curator, path);
            case "semaphore-mutex":
                return new Held(curator, new InterProcessSemaphoreMutex(curator, path),
                    Contest.EXCLUSIVE);
            case "write":
                return new Held(curator, new InterProcessReadWriteLock(curator, path).writeLock(),
                    Contest.EXCLUSIVE);
            case "read":
                return new Held(curator, new InterProcessReadWriteLock(curator, path).readLock(),
                    Contest.SHARED);
            case "multi":
                return new Held(curator, new InterProcessMultiLock(curator,
                    Arrays.asList(path + "/one", path + "/two")), Contest.EXCLUSIVE);
            case "semaphore":
                return new Leased(curator, new InterProcessSemaphoreV2(curator, path, PERMITS));
            default:
                throw new IllegalArgumentException(recipe);
        }
    }

    /**
     * The servers that were given, which may be proxies: newer versions would go round them when they
     * have read the configuration of the ensemble. Older ones do not have these methods.
     */
    private static final class GivenServers extends FixedEnsembleProvider {
        GivenServers() {
            super(Contest.SERVERS);
        }

        public void setConnectionString(String servers) {
        }

        public boolean updateServerListEnabled() {
            return false;
        }
    }

    private record Held(CuratorFramework curator, InterProcessLock lock, String mode)
        implements Contest.Lock {
        @Override
        public String acquire() throws Exception {
            lock.acquire();
            return mode;
        }

        @Override
        public void release() throws Exception {
            lock.release();
        }

        @Override
        public void close() {
            curator.close();
        }
    }

    /** A mutex that tells the path of its znode. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework curator, String path) {
            super(curator, path);
        }

        String znode() {
            return getLockPath();
        }
    }

    /** A mutex whose grants have tokens: the transactions that created its znodes. */
    private static final class Fenced implements Contest.Lock {
        private final CuratorFramework curator;
        private final Mutex mutex;
        private long token;

        Fenced(CuratorFramework curator, String path) {
            this.curator = curator;
            mutex = new Mutex(curator, path);
        }

        @Override
        public String acquire() throws Exception {
            while (true) {
                mutex.acquire();
                Stat stat = curator.checkExists().forPath(mutex.znode());
                if (stat != null) {
                    token = stat.getCzxid();
                    return Contest.EXCLUSIVE;
                }
                // It was lost before its token was known.
                mutex.release();
            }
        }

        @Override
        public long token() {
            return token;
        }

        @Override
        public void release() throws Exception {
            mutex.release();
        }

        @Override
        public void close() {
            curator.close();
        }
    }

    private static final class Leased implements Contest.Lock {
        private final CuratorFramework curator;
        private final InterProcessSemaphoreV2 semaphore;
        private Lease lease;

        Leased(CuratorFramework curator, InterProcessSemaphoreV2 semaphore) {
            this.curator = curator;
            this.semaphore = semaphore;
        }

        @Override
        public String acquire() throws Exception {
            lease = semaphore.acquire();
            return Contest.SHARED;
        }

        @Override
        public void release() {
            semaphore.returnLease(lease);
        }

        @Override
        public void close() {
            curator.close();
        }
    }
}
