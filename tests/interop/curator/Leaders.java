package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;

/** One leader at a time: LeaderLatch keeps it until it closes, LeaderSelector passes it on. */
final class Leaders {
    private static final int CANDIDATES = 3;

    private Leaders() {}

    static void run() throws Exception {
        latch();
        selector();
    }

    private static void latch() throws Exception {
        List<CuratorFramework> clients = new ArrayList<>();
        List<LeaderLatch> latches = new ArrayList<>();
        for (int i = 0; i < CANDIDATES; i++) {
            clients.add(Harness.client());
            latches.add(new LeaderLatch(clients.get(i), "/curator/latch", "candidate-" + i));
            latches.get(i).start();
        }
        LeaderLatch observer = latches.get(CANDIDATES - 1);
        Check.eventually("all are candidates", () -> observer.getParticipants().size() == CANDIDATES);
        while (!latches.isEmpty()) {
            Check.eventually("somebody leads", () -> latches.stream().anyMatch(LeaderLatch::hasLeadership));
            List<LeaderLatch> leading = latches.stream().filter(LeaderLatch::hasLeadership).toList();
            Check.equal(leading.size(), 1, "the number of leaders");
            LeaderLatch leader = leading.get(0);
            Participant named = leader.getLeader();
            Check.equal(named.getId(), leader.getId(), "the leader by name");
            Check.that(leader.await(1, TimeUnit.SECONDS), "the leader does not wait");
            leader.close();
            latches.remove(leader);
        }
        clients.forEach(CuratorFramework::close);
    }

    private static void selector() throws Exception {
        AtomicInteger leading = new AtomicInteger();
        AtomicInteger overlaps = new AtomicInteger();
        Set<String> led = ConcurrentHashMap.newKeySet();
        List<CuratorFramework> clients = new ArrayList<>();
        List<LeaderSelector> selectors = new ArrayList<>();
        for (int i = 0; i < CANDIDATES; i++) {
            String name = "selector-" + i;
            clients.add(Harness.client());
            LeaderSelector selector =
                    new LeaderSelector(clients.get(i), "/curator/selector", new LeaderSelectorListenerAdapter() {
                        @Override
                        public void takeLeadership(CuratorFramework client) throws InterruptedException {
                            if (leading.incrementAndGet() != 1) {
                                overlaps.incrementAndGet();
                            }
                            led.add(name);
                            Thread.sleep(10);
                            leading.decrementAndGet();
                        }
                    });
            selector.setId(name);
            selector.autoRequeue();
            selectors.add(selector);
            selector.start();
        }
        Check.eventually("each has led", () -> led.size() == CANDIDATES);
        Check.eventually("all are candidates", () -> selectors.get(0).getParticipants().size() == CANDIDATES);
        Check.equal(overlaps.get(), 0, "leaders at the same time");
        selectors.forEach(LeaderSelector::close);
        clients.forEach(CuratorFramework::close);
    }
}
