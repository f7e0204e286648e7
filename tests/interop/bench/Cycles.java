package bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Cycles of acquire and release by several clients of one lock: {@code Cycles CLIENTS WARM_UP_MS
 * WINDOW_MS RECIPE…} prints a line {@code RECIPE CYCLES_PER_SECOND} for each recipe.
 * {@code ZK_CONNECT} lists the servers.
 */
public final class Cycles {
    private static final int PERMITS = 2;
    private static final int END_MAX_S = 30;

    private Cycles() {}

    private interface Cycle {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[0]);
        long warmUpMs = Long.parseLong(arguments[1]);
        long windowMs = Long.parseLong(arguments[2]);
        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            clients.add(connect());
        }
        for (String recipe : Arrays.copyOfRange(arguments, 3, arguments.length)) {
            System.out.println(recipe + " " + measure(clients, recipe, warmUpMs, windowMs));
        }
        clients.forEach(CuratorFramework::close);
        System.exit(0);
    }

    private static CuratorFramework connect() throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(System.getenv("ZK_CONNECT"))
                .sessionTimeoutMs(10_000)
                .connectionTimeoutMs(10_000)
                .retryPolicy(new ExponentialBackoffRetry(100, 6))
                .build();
        client.start();
        if (!client.blockUntilConnected(15, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection");
        }
        return client;
    }

    private static double measure(List<CuratorFramework> clients, String recipe, long warmUpMs, long windowMs)
            throws Exception {
        // A path of its own for each run, so that none finds what an earlier one has left.
        String path = "/bench-curator/" + recipe + "-" + System.nanoTime();
        AtomicLong cycles = new AtomicLong();
        AtomicBoolean stop = new AtomicBoolean();
        ExecutorService threads = Executors.newFixedThreadPool(clients.size());
        List<Future<?>> running = new ArrayList<>();
        for (int i = 0; i < clients.size(); i++) {
            Cycle cycle = cycle(clients.get(i), recipe, path, i);
            running.add(threads.submit(() -> {
                while (!stop.get()) {
                    cycle.run();
                    cycles.incrementAndGet();
                }
                return null;
            }));
        }
        Thread.sleep(warmUpMs);
        long before = cycles.get();
        long began = System.nanoTime();
        Thread.sleep(windowMs);
        double perSecond = (cycles.get() - before) * 1e9 / (System.nanoTime() - began);
        stop.set(true);
        for (Future<?> one : running) {
            one.get(END_MAX_S, TimeUnit.SECONDS);
        }
        threads.shutdown();
        return perSecond;
    }

    private static Cycle cycle(CuratorFramework client, String recipe, String path, int number) {
        switch (recipe) {
            case "mutex": {
                InterProcessMutex lock = new InterProcessMutex(client, path);
                return () -> {
                    lock.acquire();
                    lock.release();
                };
            }
            case "semaphore-mutex": {
                InterProcessSemaphoreMutex lock = new InterProcessSemaphoreMutex(client, path);
                return () -> {
                    lock.acquire();
                    lock.release();
                };
            }
            case "read-write": {
                InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);
                // Every second client writes.
                InterProcessMutex mine = number % 2 == 0 ? lock.writeLock() : lock.readLock();
                return () -> {
                    mine.acquire();
                    mine.release();
                };
            }
            case "semaphore": {
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, PERMITS);
                return () -> {
                    Lease lease = semaphore.acquire();
                    semaphore.returnLease(lease);
                };
            }
            case "multi": {
                InterProcessMultiLock lock =
                        new InterProcessMultiLock(client, List.of(path + "-a", path + "-b"));
                return () -> {
                    lock.acquire();
                    lock.release();
                };
            }
            default:
                throw new IllegalArgumentException("unknown recipe " + recipe);
        }
    }
}
