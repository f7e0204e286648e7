package contest;

import java.util.Comparator;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import org.I0Itec.zkclient.IZkDataListener;
import org.I0Itec.zkclient.ZkClient;

/** The sequential lock over zkclient, which repeats lost calls by itself. */
final class WithZkClient implements Contest.Lock {
    private final ZkClient zk;
    private final String path;
    private String own;

    private WithZkClient(String path) {
        this.zk = new ZkClient(Contest.SERVERS, Contest.SESSION_TIMEOUT_MS, 30_000);
        this.path = path;
        zk.createPersistent(path, true);
    }

    public static void main(String[] arguments) throws Exception {
        Contest.run(WithZkClient::open, arguments);
    }

    private static Contest.Lock open(String recipe, String path) {
        if (!recipe.equals("mutex")) {
            throw new IllegalArgumentException(recipe);
        }
        return new WithZkClient(path);
    }

    @Override
    public String acquire() throws Exception {
        enqueue();
        while (true) {
            List<String> queue = queue();
            int place = queue.indexOf(own);
            if (place < 0) {
                throw new IllegalStateException(own + " is gone");
            }
            if (place == 0) {
                return Contest.EXCLUSIVE;
            }
            awaitDeletion(path + "/" + queue.get(place - 1));
        }
    }

    /** A creation that zkclient has repeated after a lost reply leaves two znodes of one name. */
    private void enqueue() {
        String attempt = UUID.randomUUID().toString();
        zk.createEphemeralSequential(path + "/" + attempt + "-", "");
        own = null;
        for (String name : queue()) {
            if (!name.startsWith(attempt)) {
                continue;
            }
            if (own == null) {
                own = name;
            } else {
                zk.delete(path + "/" + name);
            }
        }
    }

    private List<String> queue() {
        List<String> names = zk.getChildren(path);
        names.sort(Comparator.comparing(name -> name.substring(name.lastIndexOf('-'))));
        return names;
    }

    private void awaitDeletion(String before) throws InterruptedException {
        CountDownLatch deleted = new CountDownLatch(1);
        IZkDataListener listener = new IZkDataListener() {
            @Override
            public void handleDataChange(String changed, Object data) {
                // Only the end of the one before counts.
            }

            @Override
            public void handleDataDeleted(String gone) {
                deleted.countDown();
            }
        };
        zk.subscribeDataChanges(before, listener);
        try {
            if (zk.exists(before)) {
                deleted.await();
            }
        } finally {
            zk.unsubscribeDataChanges(before, listener);
        }
    }

    @Override
    public void release() {
        zk.delete(path + "/" + own);
    }

    @Override
    public void close() {
        zk.close();
    }
}
