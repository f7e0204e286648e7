package interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** The servers, clients of them, and the lines that go to and come from the harness. */
final class Harness {
    static final String CONNECT = System.getenv("ZK_CONNECT");
    static final boolean APACHE = "apache".equals(System.getenv("ZK_KIND"));

    /** Long enough for an election on a busy machine: a lost server never costs a session. */
    static final int SESSION_MS = 10_000;

    private static final Pattern REMOTE = Pattern.compile("remoteserver:\\S*:(\\d+)");
    private static final BufferedReader INPUT =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private Harness() {}

    static void giveUpAfter(Duration limit) {
        Thread watchdog = new Thread(() -> {
            try {
                Thread.sleep(limit.toMillis());
            } catch (InterruptedException ended) {
                return;
            }
            System.err.println("no end after " + limit);
            Thread.getAllStackTraces().forEach((thread, stack) -> {
                System.err.println(thread);
                Arrays.stream(stack).forEach(frame -> System.err.println("    " + frame));
            });
            Runtime.getRuntime().halt(3);
        });
        watchdog.setDaemon(true);
        watchdog.start();
    }

    static CuratorFramework client() throws Exception {
        return client(CONNECT, SESSION_MS);
    }

    static CuratorFramework client(String connect, int sessionMs) throws Exception {
        return started(builder(connect, sessionMs));
    }

    /** What nearly every program with Curator does, its defaults included. */
    static CuratorFrameworkFactory.Builder builder(String connect, int sessionMs) {
        return CuratorFrameworkFactory.builder()
                .connectString(connect)
                .sessionTimeoutMs(sessionMs)
                .connectionTimeoutMs(10_000)
                .retryPolicy(new ExponentialBackoffRetry(100, 6));
    }

    static CuratorFramework started(CuratorFrameworkFactory.Builder builder) throws Exception {
        CuratorFramework client = builder.build();
        client.start();
        Check.that(client.blockUntilConnected(15, TimeUnit.SECONDS), "connected");
        return client;
    }

    /**
     * Another client's writes are seen by what is read after this. The framework does not wait for
     * the reply: it sends the sync before what is asked next.
     */
    static void sync(CuratorFramework client) throws Exception {
        client.sync().forPath("/");
    }

    static long sessionOf(CuratorFramework client) throws Exception {
        return client.getZookeeperClient().getZooKeeper().getSessionId();
    }

    /** The server that the client is connected to, as it is spelled in the connect string. */
    static String serverOf(CuratorFramework client) throws Exception {
        String described = client.getZookeeperClient().getZooKeeper().toString();
        Matcher remote = REMOTE.matcher(described);
        Check.that(remote.find(), "a connected client names its server: " + described);
        return servers().stream()
                .filter(server -> server.endsWith(":" + remote.group(1)))
                .findFirst()
                .orElseThrow(() -> new AssertionError("connected to a stranger: " + described));
    }

    static List<String> servers() {
        return List.of(CONNECT.split(","));
    }

    static String without(String lost) {
        return String.join(",", servers().stream().filter(server -> !server.equals(lost)).toList());
    }

    /** The server that calls itself the leader, or null. */
    static String leader() {
        return servers().stream()
                .filter(server -> ask(server, "srvr").contains("Mode: leader\n"))
                .findFirst()
                .orElse(null);
    }

    private static String ask(String server, String word) {
        int colon = server.lastIndexOf(':');
        int port = Integer.parseInt(server.substring(colon + 1));
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(server.substring(0, colon), port), 2000);
            socket.setSoTimeout(2000);
            socket.getOutputStream().write(word.getBytes(StandardCharsets.UTF_8));
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException notThere) {
            return "";
        }
    }

    /** Has the harness kill a server, and returns when it is dead. */
    static void loseServer(String server) throws IOException {
        exchange("LOSE SERVER " + server, "LOST " + server);
    }

    /** Has the harness start the killed server again. */
    static void bringBack() throws IOException {
        exchange("BRING BACK", "BACK");
    }

    private static void exchange(String request, String expected) throws IOException {
        System.out.println(request);
        System.out.flush();
        Check.equal(INPUT.readLine(), expected, "the harness's answer");
    }
}
