import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Id;

/** The Java client with SASL: prints what becomes of logins and of access, a line each. */
public final class Logins {
    private static final int SOON_S = 30;

    /** A client that logs in as a section of the JAAS file says, and how that ended. */
    private static final class Login implements AutoCloseable {
        final AtomicReference<String> end = new AtomicReference<>();
        final CountDownLatch ended = new CountDownLatch(1);
        final ZooKeeper client;

        Login(String section) throws Exception {
            ZKClientConfig config = new ZKClientConfig();
            if (section == null) {
                config.setProperty(ZKClientConfig.ENABLE_CLIENT_SASL_KEY, "false");
            } else {
                config.setProperty(ZKClientConfig.LOGIN_CONTEXT_NAME_KEY, section);
            }
            KeeperState wanted =
                section == null ? KeeperState.SyncConnected : KeeperState.SaslAuthenticated;
            client = new ZooKeeper(System.getenv("ZK_CONNECT"), 10_000, event -> {
                if (event.getState() == wanted || event.getState() == KeeperState.AuthFailed) {
                    end.compareAndSet(null, event.getState().name());
                    ended.countDown();
                }
            }, config);
            if (!ended.await(SOON_S, TimeUnit.SECONDS)) {
                end.compareAndSet(null, "no end");
            }
        }

        @Override
        public void close() throws InterruptedException {
            client.close(2_000);
        }
    }

    private interface Call {
        void run() throws Exception;
    }

    private static String outcome(Call call) throws Exception {
        try {
            call.run();
            return "ok";
        } catch (KeeperException error) {
            return error.code().name();
        }
    }

    private static void say(String what, Object result) {
        System.out.println(what + ": " + result);
    }

    public static void main(String[] args) throws Exception {
        for (String section : new String[] {"Wrong", "Unknown"}) {
            try (Login login = new Login(section)) {
                say("login of " + section, login.end.get());
                say(section + " reads", outcome(() -> login.client.getData("/", false, null)));
            }
        }
        try (Login bob = new Login("Bob")) {
            say("login of Bob", bob.end.get());
            TreeSet<String> identities = new TreeSet<>();
            for (ClientInfo info : bob.client.whoAmI()) {
                identities.add(info.getAuthScheme() + " " + info.getUser());
            }
            say("Bob is", identities);
            List<ACL> acl = Collections.singletonList(new ACL(Perms.ALL, new Id("sasl", "bob")));
            String created = "INVALIDACL";
            for (int at = 0; at < 200 && created.equals("INVALIDACL"); at++) {
                created = outcome(() ->
                    bob.client.create("/java", new byte[0], acl, CreateMode.PERSISTENT));
                // Servers of zoolet agree on the feature within a second.
                Thread.sleep(at == 0 ? 0 : 100);
            }
            say("Bob creates", created);
            say("Bob creates for himself", outcome(() ->
                bob.client.create("/own", new byte[0], Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT)));
            say("the ACL", bob.client.getACL("/own", null).get(0).getId().getId());
            for (String section : new String[] {null, "Bob", "Eve", "Admin", "Super"}) {
                try (Login other = new Login(section)) {
                    say("login of " + section, other.end.get());
                    say(section + " reads", outcome(() -> other.client.getData("/java", false, null)));
                    say(section + " writes", outcome(() -> other.client.setData("/own", new byte[1], -1)));
                }
            }
        }
        System.out.println("end");
        System.exit(0);
    }
}
