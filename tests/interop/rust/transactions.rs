//! Several writes at once or none, and several reads of one state.

use zookeeper_client::{
    Acls, CheckWriteError, CreateMode, Error, MultiReadResult, MultiWriteError, MultiWriteResult,
};

use crate::harness::{Servers, check, equal, fails, ok};

pub async fn run(servers: &Servers) {
    let client = servers.connect().await;
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let sequential = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());

    let mut writer = client.new_multi_writer();
    ok(writer.add_create("/rust/multi", b"a", &persistent), "add");
    ok(writer.add_create("/rust/multi/n-", b"", &sequential), "add");
    ok(writer.add_set_data("/rust/multi", b"bc", Some(0)), "add");
    ok(writer.add_check_version("/rust/multi", 1), "add");
    ok(writer.add_delete("/rust/multi/n-0000000000", None), "add");
    let results = ok(writer.commit().await, "commit");
    equal(results.len(), 5, "the number of results");
    let MultiWriteResult::Create { path, stat } = &results[1] else {
        panic!("not a create: {:?}", results[1]);
    };
    equal(path.as_str(), "/rust/multi/n-0000000000", "the name of the sequence");
    check(!stat.is_invalid(), "create in a multi gives a stat");
    let MultiWriteResult::SetData { stat } = &results[2] else {
        panic!("not a set: {:?}", results[2]);
    };
    equal((stat.version, stat.data_length, stat.num_children), (1, 2, 1), "the stat of the set");
    equal(stat.czxid, stat.mzxid, "all of a multi under one zxid");
    equal(&results[3], &MultiWriteResult::Check, "the check");
    equal(&results[4], &MultiWriteResult::Delete, "the delete");

    let mut writer = client.new_multi_writer();
    ok(writer.add_set_data("/rust/multi", b"lost", None), "add");
    ok(writer.add_delete("/rust/multi/none", None), "add");
    ok(writer.add_create("/rust/multi/late", b"", &persistent), "add");
    let expected = MultiWriteError::OperationFailed { index: 1, source: Error::NoNode };
    fails(writer.commit().await, expected, "a multi with an impossible part");
    equal(ok(client.get_data("/rust/multi").await, "get").0, b"bc".to_vec(), "nothing was done");
    equal(ok(client.check_stat("/rust/multi/late").await, "exists"), None, "nothing was created");

    let writer = ok(client.new_check_writer("/rust/multi", Some(7)), "a guarded write");
    let expected = CheckWriteError::CheckFailed { source: Error::BadVersion };
    fails(writer.commit().await, expected, "its failed check");

    let mut reader = client.new_multi_reader();
    ok(reader.add_get_data("/rust/multi"), "add");
    ok(reader.add_get_children("/rust"), "add");
    ok(reader.add_get_data("/rust/none"), "add");
    let results = ok(reader.commit().await, "read");
    equal(results.len(), 3, "the number of results");
    check(matches!(&results[0], MultiReadResult::Data { data, .. } if data == b"bc"), "the data");
    check(
        matches!(&results[1], MultiReadResult::Children { children } if children.contains(&"multi".to_owned())),
        "the children",
    );
    check(matches!(&results[2], MultiReadResult::Error { err: Error::NoNode }), "the error");
}
