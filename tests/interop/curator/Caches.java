package interop;

import static interop.Framework.bytes;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;

/** CuratorCache: a mirror of a tree that hangs on one recursive watch. */
final class Caches {
    private Caches() {}

    static void run() throws Exception {
        try (CuratorFramework watching = Harness.client(); CuratorFramework writing = Harness.client()) {
            writing.create().creatingParentsIfNeeded().forPath("/curator/cache/old/deep", bytes("1"));
            writing.setData().forPath("/curator/cache", bytes("root"));
            writing.setData().forPath("/curator/cache/old", bytes("old"));
            Harness.sync(watching);
            AtomicInteger created = new AtomicInteger();
            AtomicInteger changed = new AtomicInteger();
            AtomicInteger deleted = new AtomicInteger();
            CountDownLatch initialized = new CountDownLatch(1);
            try (CuratorCache cache = CuratorCache.build(watching, "/curator/cache")) {
                cache.listenable().addListener(CuratorCacheListener.builder()
                        .forCreates(node -> created.incrementAndGet())
                        .forChanges((before, after) -> changed.incrementAndGet())
                        .forDeletes(node -> deleted.incrementAndGet())
                        .forInitialized(initialized::countDown)
                        .build());
                cache.start();
                Check.that(initialized.await(15, TimeUnit.SECONDS), "the cache is filled");
                Check.equal(content(cache), Map.of("/curator/cache", "root", "/curator/cache/old", "old",
                        "/curator/cache/old/deep", "1"), "what was there before");
                Check.equal(created.get(), 3, "one creation event for each");

                writing.create().forPath("/curator/cache/new", bytes("n"));
                writing.setData().forPath("/curator/cache/old/deep", bytes("2"));
                // A cache that gets the deletion before it has read the znode never had it.
                Check.eventually("the new one", () -> cache.get("/curator/cache/new").isPresent());
                writing.delete().deletingChildrenIfNeeded().forPath("/curator/cache/new");
                writing.create().forPath("/curator/cache/new", bytes("n2"));
                for (int i = 0; i < 50; i++) {
                    writing.create().forPath("/curator/cache/old/n" + i, bytes("" + i));
                }
                Check.eventually("n0", () -> cache.get("/curator/cache/old/n0").isPresent());
                writing.delete().forPath("/curator/cache/old/n0");
                Map<String, String> expected = mirror(writing, "/curator/cache", new TreeMap<>());
                Check.equal(expected.size(), 53, "the size of the tree");
                Check.eventually("the cache equals the tree", () -> content(cache).equals(expected));
                Check.eventually("deletions are reported", () -> deleted.get() == 2);
                Check.eventually("changes are reported", () -> changed.get() >= 1);
                Check.eventually("creations are reported", () -> created.get() == 3 + 2 + 50);
                Check.equal(cache.get("/curator/cache/new").get().getStat(),
                        writing.checkExists().forPath("/curator/cache/new"), "the stat in the cache");
            }
        }
    }

    static Map<String, String> content(CuratorCache cache) {
        Map<String, String> content = new TreeMap<>();
        cache.stream().forEach(node -> content.put(node.getPath(), new String(node.getData())));
        return content;
    }

    static Map<String, String> mirror(CuratorFramework client, String path, Map<String, String> content)
            throws Exception {
        content.put(path, Framework.text(client, path));
        for (String child : client.getChildren().forPath(path)) {
            mirror(client, path + "/" + child, content);
        }
        return content;
    }
}
