import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * Every call of ZooKeeper's Java client once or twice, for the golden vectors: see recorder.rs. The
 * harness reads from stdout which server to stop, as foreign.rs has it.
 */
public final class Golden {
    private static final List<ACL> OPEN = ZooDefs.Ids.OPEN_ACL_UNSAFE;
    private static final BufferedReader HARNESS =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private static int checks;

    private interface Call {
        void run() throws Exception;
    }

    private static void fails(KeeperException.Code code, Call call) throws Exception {
        try {
            call.run();
        } catch (KeeperException e) {
            if (e.code() != code) {
                throw e;
            }
            checks++;
            return;
        }
        throw new IllegalStateException("nothing failed with " + code);
    }

    private static void holds(boolean fact, String what) {
        if (!fact) {
            throw new IllegalStateException(what);
        }
        checks++;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static ZooKeeper open(String servers) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeperAdmin(servers, 30_000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        holds(connected.await(30, TimeUnit.SECONDS), "no session");
        return client;
    }

    public static void main(String[] arguments) throws Exception {
        String servers = System.getenv("ZK_CONNECT");
        ZooKeeper client = open(servers);
        creates(client);
        reads(client);
        writes(client);
        transactions(client);
        access(client, servers);
        watches(client);
        ensemble(client);
        reconnect(client, servers);
        client.close();
        System.out.println("OK " + checks + " checks");
    }

    private static void creates(ZooKeeper client) throws Exception {
        client.create("/g", bytes("data"), OPEN, CreateMode.PERSISTENT);
        client.create("/g/null", null, OPEN, CreateMode.PERSISTENT);
        client.create("/g/empty", new byte[0], OPEN, CreateMode.PERSISTENT);
        client.create("/g/ephemeral", bytes("e"), OPEN, CreateMode.EPHEMERAL);
        client.create("/g/s-", bytes("s"), OPEN, CreateMode.PERSISTENT_SEQUENTIAL);
        client.create("/g/es-", bytes("es"), OPEN, CreateMode.EPHEMERAL_SEQUENTIAL);
        client.create("/g/container", bytes("c"), OPEN, CreateMode.CONTAINER);
        client.create("/g/ttl", bytes("t"), OPEN, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 60_000);
        client.create("/g/ts-", null, OPEN, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, new Stat(), 1);
        Stat stat = new Stat();
        client.create("/g/stat", bytes("ä€"), OPEN, CreateMode.PERSISTENT, stat);
        holds(stat.getDataLength() == 5, "create2 returns a Stat");
        fails(KeeperException.Code.NODEEXISTS,
                () -> client.create("/g", null, OPEN, CreateMode.PERSISTENT));
        fails(KeeperException.Code.NONODE,
                () -> client.create("/no/parent", null, OPEN, CreateMode.PERSISTENT));
        fails(KeeperException.Code.NOCHILDRENFOREPHEMERALS,
                () -> client.create("/g/ephemeral/x", null, OPEN, CreateMode.PERSISTENT));
        fails(KeeperException.Code.INVALIDACL,
                () -> client.create("/g/acl", null, List.of(), CreateMode.PERSISTENT));
    }

    private static void reads(ZooKeeper client) throws Exception {
        holds(client.exists("/g", false) != null, "exists");
        holds(client.exists("/absent", false) == null, "does not exist");
        Stat stat = new Stat();
        holds(client.getData("/g/empty", false, stat).length == 0, "empty");
        holds(client.getData("/g/null", false, stat) == null, "null");
        holds(client.getData("/g", false, stat).length == 4, "data");
        fails(KeeperException.Code.NONODE, () -> client.getData("/absent", false, null));
        holds(client.getChildren("/g", false).size() == 9, "children");
        holds(client.getChildren("/g/empty", false).isEmpty(), "no children");
        holds(client.getChildren("/g", false, stat).size() == 9, "children and Stat");
        holds(client.getEphemerals().size() == 2, "ephemerals");
        holds(client.getEphemerals("/g/es").size() == 1, "ephemerals by prefix");
        holds(client.getAllChildrenNumber("/g") == 9, "all children");
        CountDownLatch synced = new CountDownLatch(1);
        client.sync("/g", (code, path, context) -> synced.countDown(), null);
        holds(synced.await(10, TimeUnit.SECONDS), "sync");
        holds(client.multi(List.of(Op.getChildren("/g"), Op.getData("/g"), Op.getData("/absent")))
                .size() == 3, "multiRead");
    }

    private static void writes(ZooKeeper client) throws Exception {
        holds(client.setData("/g", bytes("more"), 0).getVersion() == 1, "setData");
        client.setData("/g", null, -1);
        fails(KeeperException.Code.BADVERSION, () -> client.setData("/g", null, 7));
        client.create("/g/gone", null, OPEN, CreateMode.PERSISTENT);
        client.delete("/g/gone", 0);
        fails(KeeperException.Code.NONODE, () -> client.delete("/g/gone", -1));
        fails(KeeperException.Code.NOTEMPTY, () -> client.delete("/g", -1));
    }

    private static void transactions(ZooKeeper client) throws Exception {
        client.multi(List.of(
                Op.create("/g/m", bytes("m"), OPEN, CreateMode.PERSISTENT),
                Op.create("/g/mc", null, OPEN, CreateMode.CONTAINER),
                Op.create("/g/mt", null, OPEN, CreateMode.PERSISTENT_WITH_TTL, 60_000),
                Op.setData("/g/m", bytes("n"), 0),
                Op.check("/g/m", 1),
                Op.delete("/g/m", 1)));
        fails(KeeperException.Code.BADVERSION, () -> client.multi(List.of(
                Op.create("/g/undone", null, OPEN, CreateMode.PERSISTENT),
                Op.check("/g", 99),
                Op.delete("/g/mc", -1))));
        client.multi(List.of());
    }

    private static void access(ZooKeeper client, String servers) throws Exception {
        client.addAuthInfo("digest", bytes("user:secret"));
        holds(client.whoAmI().size() == 2, "two identities");
        client.create("/g/mine", null, ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        Stat stat = new Stat();
        holds(client.getACL("/g/mine", stat).size() == 1, "getACL");
        List<ACL> two = Arrays.asList(
                new ACL(ZooDefs.Perms.ALL, new Id("auth", "")),
                new ACL(ZooDefs.Perms.READ, new Id("ip", "127.0.0.1")));
        holds(client.setACL("/g/mine", two, 0).getAversion() == 1, "setACL");
        client.setACL("/g/mine", ZooDefs.Ids.CREATOR_ALL_ACL, -1);
        fails(KeeperException.Code.BADVERSION, () -> client.setACL("/g/mine", two, 9));
        ZooKeeper other = open(servers);
        fails(KeeperException.Code.NOAUTH, () -> other.getData("/g/mine", false, null));
        fails(KeeperException.Code.NOAUTH, () -> other.setData("/g/mine", null, -1));
        other.addAuthInfo("nonsense", bytes("x"));
        fails(KeeperException.Code.AUTHFAILED, () -> other.exists("/g", false));
        other.close();
    }

    private static void watches(ZooKeeper client) throws Exception {
        CountDownLatch fired = new CountDownLatch(6);
        Watcher watcher = event -> fired.countDown();
        client.exists("/g/w", watcher);
        client.create("/g/w", null, OPEN, CreateMode.PERSISTENT);
        client.getData("/g/w", watcher, null);
        client.setData("/g/w", bytes("x"), -1);
        client.getChildren("/g/w", watcher);
        client.create("/g/w/c", null, OPEN, CreateMode.PERSISTENT);
        client.addWatch("/g/w", watcher, AddWatchMode.PERSISTENT);
        client.addWatch("/g/w", watcher, AddWatchMode.PERSISTENT_RECURSIVE);
        client.delete("/g/w/c", -1);
        client.delete("/g/w", -1);
        holds(fired.await(10, TimeUnit.SECONDS), "watches fire");
        client.removeWatches("/g/w", watcher, Watcher.WatcherType.Any, false);
        Watcher another = event -> { };
        client.exists("/g", another);
        client.exists("/g", watcher);
        client.removeWatches("/g", another, Watcher.WatcherType.Data, false);
        client.removeAllWatches("/g", Watcher.WatcherType.Data, false);
    }

    private static void ensemble(ZooKeeper client) throws Exception {
        holds(client.exists("/zookeeper/config", false) != null, "config");
        ZooKeeperAdmin admin = (ZooKeeperAdmin) client;
        fails(KeeperException.Code.RECONFIGDISABLED,
                () -> admin.reconfigure("server.9=127.0.0.1:1:2;3", null, null, -1, null));
    }

    /** A lost server makes the client say all of its watches again, in both of the forms. */
    private static void reconnect(ZooKeeper client, String servers) throws Exception {
        ZooKeeper plain = open(servers);
        CountDownLatch back = new CountDownLatch(2);
        Watcher state = event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                back.countDown();
            }
        };
        plain.exists("/g", state);
        plain.exists("/g/later", state);
        plain.getChildren("/g", state);
        client.addWatch("/g", state, AddWatchMode.PERSISTENT);
        client.addWatch("/g/stat", state, AddWatchMode.PERSISTENT_RECURSIVE);
        client.exists("/g/later", state);
        System.out.println("LOSE SERVER " + servers);
        HARNESS.readLine();
        System.out.println("BRING BACK");
        HARNESS.readLine();
        holds(back.await(30, TimeUnit.SECONDS), "both are back");
        client.create("/g/later", null, OPEN, CreateMode.PERSISTENT);
        plain.exists("/g", false);
        // Both clients say a ping when they have been silent for a third of the session's time.
        Thread.sleep(11_000);
        plain.close();
    }
}
