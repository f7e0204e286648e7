package interop;

import static interop.Framework.bytes;
import static interop.Framework.text;

import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.api.transaction.OperationType;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/** Several writes at once or none. */
final class Transactions {
    private Transactions() {}

    static void run() throws Exception {
        try (CuratorFramework client = Harness.client()) {
            CuratorOp create = client.transactionOp().create().forPath("/curator/tx", bytes("a"));
            CuratorOp sequence = client.transactionOp().create()
                    .withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/curator/tx/n-");
            CuratorOp set = client.transactionOp().setData().withVersion(0).forPath("/curator/tx", bytes("bc"));
            CuratorOp check = client.transactionOp().check().withVersion(1).forPath("/curator/tx");
            CuratorOp delete = client.transactionOp().delete().forPath("/curator/tx/n-0000000000");
            List<CuratorTransactionResult> results =
                    client.transaction().forOperations(create, sequence, set, check, delete);
            Check.equal(results.stream().map(CuratorTransactionResult::getType).toList(),
                    List.of(OperationType.CREATE, OperationType.CREATE, OperationType.SET_DATA,
                            OperationType.CHECK, OperationType.DELETE), "the kinds of results");
            Check.equal(results.get(1).getResultPath(), "/curator/tx/n-0000000000", "the sequence's name");
            Check.equal(results.get(2).getResultStat().getVersion(), 1, "the version after set");
            Check.equal(results.get(2).getResultStat().getMzxid(),
                    client.checkExists().forPath("/curator/tx").getCzxid(), "all under one zxid");

            CuratorOp lost = client.transactionOp().setData().forPath("/curator/tx", bytes("lost"));
            CuratorOp wrong = client.transactionOp().check().withVersion(9).forPath("/curator/tx");
            try {
                client.transaction().forOperations(lost, wrong);
                throw new AssertionError("a transaction with a wrong version went through");
            } catch (KeeperException.BadVersionException refused) {
                Check.equal(refused.getResults().size(), 2, "a result for each part");
                Check.equal(code(refused, 0), KeeperException.Code.OK, "the part before the wrong one");
                Check.equal(code(refused, 1), KeeperException.Code.BADVERSION, "the wrong part");
            }
            Check.equal(text(client, "/curator/tx"), "bc", "nothing was done");
        }
    }

    private static KeeperException.Code code(KeeperException refused, int part) {
        var result = (org.apache.zookeeper.OpResult.ErrorResult) refused.getResults().get(part);
        return KeeperException.Code.get(result.getErr());
    }
}
