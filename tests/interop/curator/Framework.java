package interop;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.CuratorEvent;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;

/** The fluent calls: create in all its forms, read, change, delete, ACLs, namespaces, background. */
final class Framework {
    private Framework() {}

    static void run() throws Exception {
        try (CuratorFramework client = Harness.client()) {
            ensembleTracker(client);
            create(client);
            modes(client);
            change(client);
            idempotent(client);
            background(client);
            access(client);
            namespace(client);
        }
    }

    /**
     * The tracker is on by default: it reads the ensemble's configuration and goes on with the
     * client addresses it finds there. They have to be all of them, and the right ones.
     */
    private static void ensembleTracker(CuratorFramework client) throws Exception {
        byte[] configuration = client.getConfig().forEnsemble();
        Check.that(configuration != null, "there is a configuration");
        Check.eventually("the tracker has read the configuration",
                () -> client.getCurrentConfig() != null && client.getCurrentConfig().getAllMembers() != null);
        String text = new String(configuration, UTF_8);
        long members = text.lines().filter(line -> line.startsWith("server.")).count();
        Check.equal(members, (long) Harness.servers().size(), "the servers in " + text);
        Check.equal(ports(client.getZookeeperClient().getCurrentConnectionString()),
                ports(Harness.CONNECT), "the ports to which the client would connect next");
    }

    private static Set<String> ports(String connect) {
        return Set.of(connect.split(",")).stream()
                .map(server -> server.substring(server.lastIndexOf(':') + 1))
                .collect(Collectors.toCollection(TreeSet::new));
    }

    private static void create(CuratorFramework client) throws Exception {
        Stat stat = new Stat();
        String path = client.create().storingStatIn(stat).forPath("/curator", bytes("root"));
        Check.equal(path, "/curator", "the created path");
        Check.equal(stat.getDataLength(), 4, "the data length");
        Check.that(stat.getCzxid() > 0 && stat.getCzxid() == stat.getMzxid(), "the zxids: " + stat);
        Check.fails(KeeperException.NodeExistsException.class,
                () -> client.create().forPath("/curator"), "create twice");
        Check.fails(KeeperException.NoNodeException.class,
                () -> client.create().forPath("/curator/a/b"), "create without a parent");

        client.create().creatingParentsIfNeeded().forPath("/curator/a/b/c", bytes("c"));
        Check.that(client.checkExists().forPath("/curator/a/b") != null, "the parents are there");
        client.create().creatingParentContainersIfNeeded().forPath("/curator/boxes/one/child");
        client.delete().forPath("/curator/boxes/one/child");
        Check.eventually("the empty container goes, and the one above it",
                () -> client.checkExists().forPath("/curator/boxes") == null);

        client.create().orSetData().forPath("/curator/either", bytes("1"));
        client.create().orSetData().forPath("/curator/either", bytes("2"));
        Check.equal(text(client, "/curator/either"), "2", "create or set");
        client.create().compressed().forPath("/curator/zipped", bytes("text".repeat(100)));
        byte[] unzipped = client.getData().decompressed().forPath("/curator/zipped");
        Check.equal(new String(unzipped, UTF_8), "text".repeat(100), "compressed data");
    }

    private static void modes(CuratorFramework client) throws Exception {
        Check.equal(client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/curator/a/s-"),
                "/curator/a/s-0000000001", "a sequence counts every child that was created");
        client.create().withMode(CreateMode.EPHEMERAL).forPath("/curator/mine");
        Check.equal(client.checkExists().forPath("/curator/mine").getEphemeralOwner(),
                Harness.sessionOf(client), "the ephemeral owner");
        Check.fails(KeeperException.NoChildrenForEphemeralsException.class,
                () -> client.create().forPath("/curator/mine/child"), "a child of an ephemeral");
        String guarded = client.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
                .forPath("/curator/guarded-");
        Check.that(guarded.matches("/curator/_c_[0-9a-f-]{36}-guarded-\\d{10}"), "protected: " + guarded);

        client.create().withTtl(500).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/curator/brief");
        String numbered = client.create().withTtl(3_600_000)
                .withMode(CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL).forPath("/curator/brief-");
        Check.that(numbered.matches("/curator/brief-\\d{10}"), "a sequence with a time to live");
        Check.eventually("the time to live ends",
                () -> client.checkExists().forPath("/curator/brief") == null);
        Check.that(client.checkExists().forPath(numbered) != null, "an hour has not passed");
    }

    private static void change(CuratorFramework client) throws Exception {
        Stat stat = client.setData().withVersion(0).forPath("/curator", bytes("again"));
        Check.equal(stat.getVersion(), 1, "the version after set");
        Check.fails(KeeperException.BadVersionException.class,
                () -> client.setData().withVersion(0).forPath("/curator", bytes("x")), "an old version");
        Stat read = new Stat();
        Check.equal(new String(client.getData().storingStatIn(read).forPath("/curator"), UTF_8), "again", "data");
        Check.equal(read, client.checkExists().forPath("/curator"), "the stat of get and of exists");
        List<String> children = client.getChildren().storingStatIn(read).forPath("/curator/a");
        Check.equal(new TreeSet<>(children), new TreeSet<>(List.of("b", "s-0000000001")), "the children");
        Check.equal(read.getNumChildren(), 2, "their number");

        Check.fails(KeeperException.NotEmptyException.class,
                () -> client.delete().forPath("/curator/a"), "delete with children");
        client.delete().deletingChildrenIfNeeded().forPath("/curator/a");
        Check.equal(client.checkExists().forPath("/curator/a"), null, "deleted with all below");
        client.delete().quietly().forPath("/curator/a");
        client.create().forPath("/curator/doomed");
        client.delete().guaranteed().withVersion(0).forPath("/curator/doomed");
        Check.equal(client.checkExists().forPath("/curator/doomed"), null, "deleted for sure");
        Check.fails(KeeperException.NoNodeException.class,
                () -> client.delete().forPath("/curator/doomed"), "delete twice");
    }

    /** A call that may have been carried out before its reply was lost can be made again. */
    private static void idempotent(CuratorFramework client) throws Exception {
        client.create().idempotent().forPath("/curator/same", bytes("1"));
        client.create().idempotent().forPath("/curator/same", bytes("1"));
        Check.fails(KeeperException.NodeExistsException.class,
                () -> client.create().idempotent().forPath("/curator/same", bytes("2")), "another create");
        client.setData().idempotent().withVersion(0).forPath("/curator/same", bytes("2"));
        client.setData().idempotent().withVersion(0).forPath("/curator/same", bytes("2"));
        Check.equal(client.checkExists().forPath("/curator/same").getVersion(), 1, "set once");
        Check.fails(KeeperException.BadVersionException.class,
                () -> client.setData().idempotent().withVersion(0).forPath("/curator/same", bytes("3")),
                "another set");
        client.delete().idempotent().forPath("/curator/same");
        client.delete().idempotent().forPath("/curator/same");
        Check.equal(client.checkExists().forPath("/curator/same"), null, "deleted");
    }

    private static void background(CuratorFramework client) throws Exception {
        BlockingQueue<CuratorEvent> events = new ArrayBlockingQueue<>(10);
        client.create().inBackground((from, event) -> events.add(event)).forPath("/curator/later", bytes("x"));
        client.getData().inBackground((from, event) -> events.add(event)).forPath("/curator/later");
        client.sync().inBackground((from, event) -> events.add(event)).forPath("/curator/later");
        for (String expected : List.of("CREATE", "GET_DATA", "SYNC")) {
            CuratorEvent event = events.poll(Check.ON_ITS_WAY_MS, TimeUnit.MILLISECONDS);
            Check.that(event != null, "the background call " + expected);
            Check.equal(event.getType().name(), expected, "the order of background calls");
            Check.equal(event.getResultCode(), 0, "the result of " + expected);
            Check.equal(event.getPath(), "/curator/later", "the path of " + expected);
        }
    }

    private static void access(CuratorFramework stranger) throws Exception {
        Id id = new Id("digest", DigestAuthenticationProvider.generateDigest("curator:museum"));
        try (CuratorFramework owner = Harness.started(
                Harness.builder(Harness.CONNECT, Harness.SESSION_MS).authorization("digest", bytes("curator:museum")))) {
            owner.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath("/curator/own", bytes("secret"));
            Stat stat = new Stat();
            List<ACL> acl = owner.getACL().storingStatIn(stat).forPath("/curator/own");
            Check.equal(acl, List.of(new ACL(ZooDefs.Perms.ALL, id)), "auth, as the server fills it in");
            Check.equal(stat.getAversion(), 0, "aversion");
            Harness.sync(stranger);
            Check.fails(KeeperException.NoAuthException.class,
                    () -> stranger.getData().forPath("/curator/own"), "read as a stranger");
            Check.fails(KeeperException.NoAuthException.class,
                    () -> stranger.setACL().withACL(ZooDefs.Ids.OPEN_ACL_UNSAFE).forPath("/curator/own"),
                    "set the ACL as a stranger");
            Check.fails(KeeperException.InvalidACLException.class,
                    () -> stranger.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath("/curator/none"),
                    "auth without an identity");
            List<ACL> shared = List.of(new ACL(ZooDefs.Perms.ALL, id),
                    new ACL(ZooDefs.Perms.READ, ZooDefs.Ids.ANYONE_ID_UNSAFE));
            Check.equal(owner.setACL().withVersion(0).withACL(shared).forPath("/curator/own").getAversion(), 1,
                    "aversion after set");
            Harness.sync(stranger);
            Check.equal(text(stranger, "/curator/own"), "secret", "read as a stranger who may");
            Check.fails(KeeperException.NoAuthException.class,
                    () -> stranger.setData().forPath("/curator/own", bytes("x")), "write as a stranger");
        }
    }

    private static void namespace(CuratorFramework client) throws Exception {
        CuratorFramework below = client.usingNamespace("curator/space");
        Check.equal(below.create().creatingParentsIfNeeded().forPath("/inside/deep", bytes("1")),
                "/inside/deep", "the path within the namespace");
        Check.equal(text(client, "/curator/space/inside/deep"), "1", "the path without it");
        try (CuratorFramework rooted = Harness.client(Harness.CONNECT + "/curator/space", Harness.SESSION_MS)) {
            Check.equal(rooted.getChildren().forPath("/"), List.of("inside"), "below the root of a client");
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(UTF_8);
    }

    static String text(CuratorFramework client, String path) throws Exception {
        return new String(client.getData().forPath(path), UTF_8);
    }
}
