package compare;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.ensemble.fixed.FixedEnsembleProvider;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.data.Stat;

/** Lock programs over Curator, and their talk with the referee (see tests/src/compare). */
final class Compare {
    private static final int LEASE_MS = Integer.parseInt(System.getenv("COMPARE_LEASE_MS"));

    private static final AtomicLong GRANTS = new AtomicLong();
    private static final List<Long> CYCLES = new ArrayList<>();
    private static final List<Long> HAND_OVERS = new ArrayList<>();
    private static long releasedNs;

    private final int number;
    private final LinkedBlockingQueue<String> words = new LinkedBlockingQueue<>();
    private final CuratorFramework curator;
    private final InterProcessLock lock;
    private InterProcessReadWriteLock.WriteLock write;
    private volatile boolean believes;
    private volatile boolean expired;

    private Compare(int number, String recipe, String path) throws Exception {
        this.number = number;
        curator = CuratorFrameworkFactory.builder()
            .ensembleProvider(new GivenServers())
            .sessionTimeoutMs(LEASE_MS)
            .connectionTimeoutMs(10_000)
            .retryPolicy(new RetryNTimes(300, 100))
            .build();
        // In both states the lock may be lost, says Curator.
        curator.getConnectionStateListenable().addListener((client, state) -> {
            expired |= state == ConnectionState.LOST;
            if (believes && (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST)) {
                believes = false;
                say("LOST " + number);
            }
        });
        curator.start();
        curator.blockUntilConnected();
        lock = switch (recipe) {
            case "mutex" -> new Mutex(curator, path);
            case "semaphore-mutex" -> new InterProcessSemaphoreMutex(curator, path);
            case "write" -> {
                write = new InterProcessReadWriteLock(curator, path).writeLock();
                yield write;
            }
            case "multi" -> new InterProcessMultiLock(curator,
                Arrays.asList(path + "/one", path + "/two"));
            default -> throw new IllegalArgumentException(recipe);
        };
    }

    public static void main(String[] arguments) throws Exception {
        List<Compare> contenders = new ArrayList<>();
        for (String argument : arguments) {
            String[] words = argument.split(":", 2);
            contenders.add(new Compare(contenders.size(), words[0], "/" + words[1]));
        }
        for (Compare contender : contenders) {
            Thread thread = new Thread(contender::takeTurns);
            thread.setDaemon(true);
            thread.start();
        }
        say("READY");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "ASK", "OK", "AGAIN" ->
                    contenders.get(Integer.parseInt(words[1])).words.add(words[0]);
                case "RUN" -> run(contenders, Long.parseLong(words[1]), Long.parseLong(words[2]));
                case "STOP" -> {
                    contenders.forEach(contender -> contender.curator.close());
                    say("DONE");
                    System.exit(0);
                }
                default -> throw new IllegalStateException("the referee said " + line);
            }
        }
        // The referee is gone.
        System.exit(1);
    }

    /**
     * The servers that were given, which may be proxies: the client would go round them when it has
     * read the configuration of the ensemble.
     */
    private static final class GivenServers extends FixedEnsembleProvider {
        GivenServers() {
            super(System.getenv("COMPARE_SERVERS"));
        }

        @Override
        public void setConnectionString(String servers) {
        }

        @Override
        public boolean updateServerListEnabled() {
            return false;
        }
    }

    /** A mutex that shows which znode it holds. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework curator, String path) {
            super(curator, path);
        }

        String path() {
            return getLockPath();
        }
    }

    /**
     * The token, which is the transaction that created the znode of the holder; 0 when the lock was
     * lost before it was known, and for the locks that do not show their znodes.
     */
    private long token() throws Exception {
        String path;
        if (lock instanceof Mutex mutex) {
            path = mutex.path();
        } else if (write != null) {
            path = write.getLockPath();
        } else {
            return 0;
        }
        Stat stat = curator.checkExists().forPath(path);
        return stat == null ? 0 : stat.getCzxid();
    }

    private void takeTurns() {
        try {
            while (true) {
                words.take();
                turn();
            }
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private void turn() throws Exception {
        try {
            lock.acquire();
        } catch (Exception error) {
            say("FAILED " + number + " " + error);
            return;
        }
        believes = true;
        expired = false;
        long token = token();
        say("HELD " + number + " " + token);
        while (words.take().equals("AGAIN")) {
            say("AGAIN " + number + " " + again());
        }
        // It writes without looking whether it still holds the lock.
        say("WRITE " + number + " " + token);
        words.take();
        believes = false;
        try {
            // It returns nothing; the listener knows whether the session has ended.
            lock.release();
            say("FREED " + number + " " + !expired);
        } catch (Exception error) {
            say("FREED " + number + " failed " + error);
        }
    }

    /** Has the holder acquire its lock once more, in the same thread. */
    private String again() throws Exception {
        if (!lock.acquire(LEASE_MS / 2, TimeUnit.MILLISECONDS)) {
            return "waits";
        }
        lock.release();
        return "granted";
    }

    /** See the same of the program in Go. */
    private static void run(List<Compare> contenders, long longMs, long holdMs) throws Exception {
        CYCLES.clear();
        HAND_OVERS.clear();
        releasedNs = 0;
        long endNs = System.nanoTime() + longMs * 1_000_000;
        List<Thread> running = new ArrayList<>();
        for (Compare contender : contenders) {
            Thread thread = new Thread(() -> contender.loop(endNs, holdMs));
            thread.start();
            running.add(thread);
        }
        for (Thread thread : running) {
            thread.join();
        }
        say("CYCLES" + list(CYCLES));
        say("HANDOVERS" + list(HAND_OVERS));
    }

    private void loop(long endNs, long holdMs) {
        try {
            for (long asked = System.nanoTime(); asked < endNs; asked = System.nanoTime()) {
                if (!lock.acquire(endNs - asked, TimeUnit.NANOSECONDS)) {
                    return;
                }
                long acquired = System.nanoTime();
                long own = GRANTS.incrementAndGet();
                synchronized (CYCLES) {
                    if (holdMs > 0 && releasedNs != 0 && acquired < endNs) {
                        HAND_OVERS.add((acquired - releasedNs) / 1000);
                    }
                }
                if (acquired < endNs) {
                    Thread.sleep(holdMs);
                }
                long released = System.nanoTime();
                synchronized (CYCLES) {
                    releasedNs = released;
                }
                lock.release();
                long done = System.nanoTime();
                // What ends after the window is not part of its throughput.
                if (done < endNs) {
                    synchronized (CYCLES) {
                        CYCLES.add((acquired - asked + done - released) / 1000);
                    }
                }
                while (holdMs > 0 && GRANTS.get() == own && System.nanoTime() < endNs) {
                    Thread.sleep(0, 500_000);
                }
            }
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static String list(List<Long> values) {
        Collections.sort(values);
        StringBuilder text = new StringBuilder();
        values.forEach(value -> text.append(' ').append(value));
        return text.toString();
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
