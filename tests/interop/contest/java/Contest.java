package contest;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;

/** Contenders for locks, and their talk with the referee (see tests/src/contenders). */
final class Contest {
    static final String SERVERS = System.getenv("ZK_CONNECT");
    static final int SESSION_TIMEOUT_MS = Integer.parseInt(System.getenv("ZK_SESSION_TIMEOUT_MS"));
    static final String EXCLUSIVE = "exclusive";
    static final String SHARED = "shared";

    /** A lock as one contender sees it, with a session of its own. */
    interface Lock {
        /** Waits for the lock and says how it is held. */
        String acquire() throws Exception;

        /** The fencing token of the grant; 0 if the lock has none. */
        default long token() {
            return 0;
        }

        void release() throws Exception;

        /** Ends the session. */
        void close() throws Exception;
    }

    /** Makes locks by the names of their recipes. */
    interface Recipes {
        Lock open(String recipe, String path) throws Exception;
    }

    private final List<Semaphore> answers = new ArrayList<>();
    private final List<Thread> contenders = new ArrayList<>();
    private final CountDownLatch ready;
    private final CountDownLatch go = new CountDownLatch(1);
    private volatile boolean stopped;

    private Contest(Recipes recipes, String[] contended) {
        ready = new CountDownLatch(contended.length);
        for (int number = 0; number < contended.length; number++) {
            String[] words = contended[number].split(":", 2);
            int own = number;
            answers.add(new Semaphore(0));
            contenders.add(new Thread(() -> contend(recipes, words[0], words[1], own)));
        }
    }

    static void run(Recipes recipes, String[] contended) throws Exception {
        Contest contest = new Contest(recipes, contended);
        contest.contenders.forEach(Thread::start);
        Thread listener = new Thread(contest::listen);
        listener.setDaemon(true);
        listener.start();
        contest.ready.await();
        say("READY");
        for (Thread contender : contest.contenders) {
            contender.join();
        }
        say("DONE");
        System.exit(0);
    }

    private void contend(Recipes recipes, String recipe, String path, int number) {
        try {
            Lock lock = recipes.open(recipe, path);
            ready.countDown();
            go.await();
            while (!stopped) {
                String mode = lock.acquire();
                hold(number, mode, lock.token());
                report("FREE " + number, number);
                lock.release();
                pause();
            }
            lock.close();
        } catch (Throwable error) {
            error.printStackTrace();
            // Other contenders may wait for what this one holds.
            Runtime.getRuntime().halt(1);
        }
    }

    private void hold(int number, String mode, long token) throws InterruptedException {
        if (token == 0) {
            report("HELD " + number + " " + mode, number);
            pause();
        } else {
            report("HELD " + number + " " + mode + " " + token, number);
            pause();
            report("WRITE " + number + " " + token, number);
        }
    }

    private static void pause() throws InterruptedException {
        Thread.sleep(ThreadLocalRandom.current().nextInt(1, 15));
    }

    private void report(String line, int number) throws InterruptedException {
        say(line);
        answers.get(number).acquire();
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private void listen() {
        InputStreamReader input = new InputStreamReader(System.in, StandardCharsets.UTF_8);
        try (BufferedReader lines = new BufferedReader(input)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.equals("GO")) {
                    go.countDown();
                } else if (line.equals("STOP")) {
                    stopped = true;
                } else if (line.startsWith("OK ")) {
                    answers.get(Integer.parseInt(line.substring(3))).release();
                } else {
                    throw new IllegalStateException("the referee said " + line);
                }
            }
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }
}
