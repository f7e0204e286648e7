package contest;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Curator's other recipes: each line of stdin is done, and answered by a line. */
final class Counterpart {
    private static final long LONG_MS = 20_000;

    private static final QueueSerializer<String> TEXT = new QueueSerializer<>() {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    };

    private final CuratorFramework curator = CuratorFrameworkFactory.builder()
        .connectString(Contest.SERVERS)
        .sessionTimeoutMs(Contest.SESSION_TIMEOUT_MS)
        .connectionTimeoutMs(10_000)
        .retryPolicy(new RetryNTimes(300, 100))
        .build();
    private final Map<String, LeaderLatch> latches = new HashMap<>();
    private final Map<String, DistributedDoubleBarrier> barriers = new HashMap<>();
    private final Map<String, GroupMember> members = new HashMap<>();
    private final Map<String, InterProcessMutex> mutexes = new HashMap<>();
    private final LinkedBlockingQueue<String> revocations = new LinkedBlockingQueue<>();

    public static void main(String[] arguments) throws Exception {
        Counterpart counterpart = new Counterpart();
        counterpart.curator.start();
        counterpart.curator.blockUntilConnected();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(counterpart.answer(line.split(" ")));
        }
        counterpart.curator.close();
    }

    private String answer(String[] words) throws Exception {
        String path = words[1];
        switch (words[0]) {
            case "sync":
                curator.sync().forPath(path);
                return "done";
            case "add":
                return counter(path).add(Long.parseLong(words[2])).postValue().toString();
            case "count": {
                try (SharedCount count = new SharedCount(curator, path, 0)) {
                    count.start();
                    int before = count.getCount();
                    count.setCount(Integer.parseInt(words[2]));
                    return Integer.toString(before);
                }
            }
            case "put":
                new SimpleDistributedQueue(curator, path).offer(TEXT.serialize(words[2]));
                return "done";
            case "take":
                return TEXT.deserialize(
                    new SimpleDistributedQueue(curator, path).poll(LONG_MS, TimeUnit.MILLISECONDS));
            case "queue-put":
                return queuePut(path, words[2]);
            case "queue-take":
                return queueTake(path);
            case "priority-put":
                return priorityPut(path, words[2], Integer.parseInt(words[3]));
            case "latch":
                latches.put(path, new LeaderLatch(curator, path, words[2]));
                latches.get(path).start();
                return "done";
            case "latch-await":
                return Boolean.toString(latches.get(path).await(LONG_MS, TimeUnit.MILLISECONDS));
            case "latch-leader":
                return latches.get(path).getLeader().getId();
            case "latch-participants":
                return latches.get(path).getParticipants().stream().map(Participant::getId)
                    .sorted().collect(Collectors.joining(","));
            case "latch-close":
                latches.remove(path).close();
                return "done";
            case "barrier-set":
                new DistributedBarrier(curator, path).setBarrier();
                return "done";
            case "barrier-remove":
                new DistributedBarrier(curator, path).removeBarrier();
                return "done";
            case "double-enter":
                barriers.put(path, new DistributedDoubleBarrier(curator, path, 2));
                return Boolean.toString(
                    barriers.get(path).enter(LONG_MS, TimeUnit.MILLISECONDS));
            case "double-leave":
                return Boolean.toString(
                    barriers.get(path).leave(LONG_MS, TimeUnit.MILLISECONDS));
            case "member":
                members.put(path, new GroupMember(curator, path, words[2]));
                members.get(path).start();
                return "done";
            case "members":
                return String.join(",", new TreeSet<>(members.get(path).getCurrentMembers().keySet()));
            case "member-close":
                members.remove(path).close();
                return "done";
            case "revoke":
                Revoker.attemptRevoke(curator, path);
                return "done";
            case "revocable":
                InterProcessMutex mutex = new InterProcessMutex(curator, path);
                mutex.makeRevocable(asked -> revocations.add("asked"));
                mutex.acquire();
                mutexes.put(path, mutex);
                return mutex.getParticipantNodes().iterator().next();
            case "revoked":
                String asked = revocations.poll(LONG_MS, TimeUnit.MILLISECONDS);
                mutexes.remove(path).release();
                return String.valueOf(asked);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private DistributedAtomicLong counter(String path) {
        return new DistributedAtomicLong(curator, path, new RetryNTimes(50, 10));
    }

    private String queuePut(String path, String item) throws Exception {
        try (DistributedQueue<String> queue =
                 QueueBuilder.builder(curator, (QueueConsumer<String>) null, TEXT, path).buildQueue()) {
            queue.start();
            queue.put(item);
            queue.flushPuts(10, TimeUnit.SECONDS);
        }
        return "done";
    }

    private String priorityPut(String path, String item, int priority) throws Exception {
        try (DistributedPriorityQueue<String> queue =
                 QueueBuilder.builder(curator, (QueueConsumer<String>) null, TEXT, path)
                     .buildPriorityQueue(0)) {
            queue.start();
            queue.put(item, priority);
            queue.flushPuts(10, TimeUnit.SECONDS);
        }
        return "done";
    }

    private String queueTake(String path) throws Exception {
        LinkedBlockingQueue<String> items = new LinkedBlockingQueue<>();
        QueueConsumer<String> consumer = new QueueConsumer<>() {
            @Override
            public void consumeMessage(String item) {
                items.add(item);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {
            }
        };
        try (DistributedQueue<String> queue =
                 QueueBuilder.builder(curator, consumer, TEXT, path).buildQueue()) {
            queue.start();
            return String.valueOf(items.poll(LONG_MS, TimeUnit.MILLISECONDS));
        }
    }
}
