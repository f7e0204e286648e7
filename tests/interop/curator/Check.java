package interop;

import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** What was found right is counted; the first wrong ends the program. */
final class Check {
    /** Bounds the wait for something that is on its way. */
    static final long ON_ITS_WAY_MS = 20_000;

    private static final AtomicLong COUNT = new AtomicLong();

    private Check() {}

    static long count() {
        return COUNT.get();
    }

    static void that(boolean right, String what) {
        if (!right) {
            throw new AssertionError(what);
        }
        COUNT.incrementAndGet();
    }

    static void equal(Object found, Object expected, String what) {
        that(Objects.equals(found, expected), what + ": found " + found + ", expected " + expected);
    }

    static void fails(Class<? extends Exception> expected, Callable<?> call, String what) throws Exception {
        Object result;
        try {
            result = call.call();
        } catch (Exception error) {
            that(expected.isInstance(error), what + ": found " + error + ", expected " + expected);
            return;
        }
        throw new AssertionError(what + ": no error but " + result);
    }

    /** Polls for what another client or the server does in its own time. */
    static void eventually(String what, Callable<Boolean> holds) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ON_ITS_WAY_MS);
        while (!holds.call()) {
            that(System.nanoTime() < deadline, what + ": not within " + ON_ITS_WAY_MS + " ms");
            Thread.sleep(20);
        }
        COUNT.incrementAndGet();
    }

    /** Waits for the end of what runs in another thread, and throws what it threw. */
    static <T> T done(Future<T> future) throws Exception {
        return future.get(ON_ITS_WAY_MS, TimeUnit.MILLISECONDS);
    }
}
