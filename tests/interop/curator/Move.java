package interop;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;

/** Holds a lock, and waits for it, while all servers are replaced by others with the same data. */
public final class Move {
    private static final Duration DEADLINE = Duration.ofMinutes(4);
    private static final String LOCK = "/locks/curator";

    /** Longer than the move takes on a busy machine. */
    private static final int SESSION_MS = 60_000;

    private Move() {}

    public static void main(String[] arguments) {
        Harness.giveUpAfter(DEADLINE);
        try {
            run();
        } catch (Throwable wrong) {
            wrong.printStackTrace();
            System.exit(1);
        }
        System.out.println("OK " + Check.count() + " checks");
        System.out.flush();
        System.exit(0);
    }

    /**
     * Its tracker would replace the connect string by the addresses of the old servers alone. A policy
     * that ends earlier than the move has a waiting acquire fail with ConnectionLoss.
     */
    private static CuratorFramework client() throws Exception {
        return Harness.started(Harness.builder(Harness.CONNECT, SESSION_MS)
                .ensembleTracker(false)
                .retryPolicy(new RetryForever(200)));
    }

    private static void run() throws Exception {
        CuratorFramework holder = client();
        CuratorFramework waiter = client();
        List<ConnectionState> states = new CopyOnWriteArrayList<>();
        holder.getConnectionStateListenable().addListener((client, state) -> states.add(state));
        InterProcessMutex held = new InterProcessMutex(holder, LOCK);
        held.acquire();
        CompletableFuture<Void> acquired = new CompletableFuture<>();
        Thread waiting = new Thread(() -> {
            try {
                new InterProcessMutex(waiter, LOCK).acquire();
                acquired.complete(null);
            } catch (Exception error) {
                acquired.completeExceptionally(error);
            }
        });
        waiting.setDaemon(true);
        waiting.start();
        Check.eventually("both are in the queue", () -> held.getParticipantNodes().size() == 2);
        long session = Harness.sessionOf(holder);
        List<String> queue = List.copyOf(held.getParticipantNodes());

        Harness.loseServer("all of them");

        Check.eventually("connected again", () -> holder.getZookeeperClient().isConnected());
        Check.equal(List.copyOf(held.getParticipantNodes()), queue, "the queue");
        Check.equal(Harness.sessionOf(holder), session, "the session");
        Check.that(!states.contains(ConnectionState.LOST), "the session was never lost: " + states);
        Check.that(held.isOwnedByCurrentThread(), "the lock is held");
        Check.that(!acquired.isDone(), "one lock, one holder");
        held.release();
        Check.done(acquired);
        Check.that(true, "the waiter is woken");
    }
}
