package interop;

import java.time.Duration;

/**
 * Apache Curator against an ensemble of three: the framework, its caches and watchers, and every
 * lock and leader recipe, on a working day and on the day a server dies.
 *
 * <p>{@code ZK_CONNECT} lists the servers, {@code ZK_KIND} says whose they are; the lines that go
 * to and come from the harness are in {@link Harness}.
 */
public final class Main {
    /** Bounds the whole program: a hang is a failure, not a wait. */
    private static final Duration DEADLINE = Duration.ofSeconds(120);

    private Main() {}

    private interface Step {
        void run() throws Exception;
    }

    public static void main(String[] arguments) {
        Harness.giveUpAfter(DEADLINE);
        try {
            step("framework", Framework::run);
            step("transactions", Transactions::run);
            step("watchers", Watchers::run);
            step("cache", Caches::run);
            step("mutexes", Mutexes::run);
            step("other locks", Locks::run);
            step("leaders", Leaders::run);
            step("counters and barriers", Counters::run);
            step("sessions", Sessions::run);
            step("loss of the server in use", Failover::loseServerInUse);
            step("loss of the leader", Failover::loseLeader);
        } catch (Throwable wrong) {
            wrong.printStackTrace();
            System.exit(1);
        }
        System.out.println("OK " + Check.count() + " checks");
        System.out.flush();
        System.exit(0);
    }

    private static void step(String name, Step step) throws Exception {
        System.out.println("# " + name);
        System.out.flush();
        step.run();
    }
}
