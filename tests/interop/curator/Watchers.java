package interop;

import static interop.Framework.bytes;

import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.CuratorWatcher;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;

/** One-shot, persistent and recursive watches, and their removal. */
final class Watchers {
    private Watchers() {}

    static void run() throws Exception {
        try (CuratorFramework watching = Harness.client(); CuratorFramework writing = Harness.client()) {
            oneShot(watching, writing);
            persistent(watching, writing);
            removed(watching, writing);
            recipe(watching, writing);
        }
    }

    private static void oneShot(CuratorFramework watching, CuratorFramework writing) throws Exception {
        Events events = new Events();
        Check.equal(watching.checkExists().usingWatcher(events.curator()).forPath("/curator/w"), null, "not there");
        writing.create().forPath("/curator/w");
        events.expect("NodeCreated /curator/w");
        watching.getData().usingWatcher(events.curator()).forPath("/curator/w");
        writing.setData().forPath("/curator/w", bytes("1"));
        events.expect("NodeDataChanged /curator/w");
        // A read after the event returns nothing older than it.
        Check.equal(Framework.text(watching, "/curator/w"), "1", "the data after the event");
        watching.getChildren().usingWatcher(events.curator()).forPath("/curator/w");
        writing.create().forPath("/curator/w/child");
        events.expect("NodeChildrenChanged /curator/w");
        watching.getChildren().usingWatcher(events.curator()).forPath("/curator/w/child");
        writing.delete().deletingChildrenIfNeeded().forPath("/curator/w");
        events.expect("NodeDeleted /curator/w/child");
        events.expectNoMore();
    }

    private static void persistent(CuratorFramework watching, CuratorFramework writing) throws Exception {
        Events node = new Events();
        Events tree = new Events();
        watching.watchers().add().withMode(AddWatchMode.PERSISTENT).usingWatcher(node.curator())
                .forPath("/curator/p");
        watching.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE).usingWatcher(tree.curator())
                .forPath("/curator/t");
        for (String root : List.of("/curator/p", "/curator/t")) {
            writing.create().forPath(root);
            writing.create().forPath(root + "/leaf");
            writing.setData().forPath(root + "/leaf", bytes("1"));
            writing.setData().forPath(root, bytes("1"));
            writing.delete().forPath(root + "/leaf");
            writing.delete().forPath(root);
        }
        for (String expected : List.of("NodeCreated /curator/p", "NodeChildrenChanged /curator/p",
                "NodeDataChanged /curator/p", "NodeChildrenChanged /curator/p", "NodeDeleted /curator/p")) {
            node.expect(expected);
        }
        for (String expected : List.of("NodeCreated /curator/t", "NodeCreated /curator/t/leaf",
                "NodeDataChanged /curator/t/leaf", "NodeDataChanged /curator/t",
                "NodeDeleted /curator/t/leaf", "NodeDeleted /curator/t")) {
            tree.expect(expected);
        }
        node.expectNoMore();
        tree.expectNoMore();
    }

    private static void removed(CuratorFramework watching, CuratorFramework writing) throws Exception {
        Events events = new Events();
        CuratorWatcher watcher = events.curator();
        watching.watchers().add().withMode(AddWatchMode.PERSISTENT).usingWatcher(watcher).forPath("/curator/r");
        watching.watchers().remove(watcher).ofType(Watcher.WatcherType.Any).forPath("/curator/r");
        // The watcher itself gets an event when it is removed.
        events.expect("PersistentWatchRemoved /curator/r");
        writing.create().forPath("/curator/r");
        Harness.sync(watching);
        Check.that(watching.checkExists().forPath("/curator/r") != null, "the znode is seen");
        events.expectNoMore();
        Check.fails(KeeperException.NoWatcherException.class,
                () -> watching.watchers().removeAll().ofType(Watcher.WatcherType.Children).forPath("/curator/r"),
                "remove what is not there");
        writing.delete().forPath("/curator/r");
    }

    private static void recipe(CuratorFramework watching, CuratorFramework writing) throws Exception {
        Events events = new Events();
        try (PersistentWatcher watcher = new PersistentWatcher(watching, "/curator/recipe", true)) {
            watcher.getListenable().addListener(events);
            watcher.start();
            Check.eventually("the watch is set", () -> {
                writing.create().orSetData().forPath("/curator/recipe");
                return !events.queue.isEmpty();
            });
            events.queue.clear();
            writing.create().forPath("/curator/recipe/leaf");
            Check.eventually("the leaf's watcher gets the event", () ->
                    events.queue.stream().anyMatch("NodeCreated /curator/recipe/leaf"::equals));
        }
    }

    /** Events in the order in which they came. */
    static final class Events implements Watcher {
        final BlockingQueue<String> queue = new LinkedBlockingQueue<>();

        @Override
        public void process(WatchedEvent event) {
            if (event.getType() != Event.EventType.None) {
                queue.add(event.getType() + " " + event.getPath());
            }
        }

        CuratorWatcher curator() {
            return this::process;
        }

        void expect(String expected) throws InterruptedException {
            Check.equal(queue.poll(Check.ON_ITS_WAY_MS, TimeUnit.MILLISECONDS), expected, "the next event");
        }

        void expectNoMore() {
            Check.equal(List.copyOf(queue), List.of(), "no event more");
        }
    }
}
