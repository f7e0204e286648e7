//! The state as bytes, and back; and that no bytes can hurt.

use super::*;
use CreateMode::{Ephemeral, Persistent, PersistentSequential};

pub(super) fn bytes_of(state: &State) -> Vec<u8> {
    state.snapshot().flat_map(|piece| piece.to_vec()).collect()
}

pub(super) fn restore(bytes: &[u8], piece: usize) -> Result<State, RestoreError> {
    State::restore(bytes.chunks(piece).map(|piece| Ok::<_, String>(Bytes::copy_from_slice(piece))))
}

/// The state through a snapshot and back.
pub(super) fn copy(state: &State) -> State {
    let copy = restore(&bytes_of(state), 1 << 16).expect("a snapshot of a state");
    assert_eq!(copy.digest(), state.digest());
    assert_eq!(copy.digest(), copy.digest_recomputed());
    copy
}

fn busy() -> Bench {
    let mut bench = Bench::new();
    bench.policy.extended_types = true;
    for at in 0..200 {
        bench.create(&format!("/n{at}"), Persistent).expect("new");
    }
    for at in (0..200).step_by(3) {
        bench.delete(&format!("/n{at}"), -1).expect("there");
    }
    for _ in 0..50 {
        bench.create("/n1/e", CreateMode::EphemeralSequential).expect("new");
    }
    bench.set("/n2", &vec![7; 200_000], -1).expect("there");
    let ttl = ttl_body("/t", CreateMode::PersistentWithTtl, 5);
    bench.write(Request::CreateTtl(ttl)).expect("new");
    bench.write(Request::CreateContainer(create_body("/c", b"", Persistent))).expect("new");
    bench.set_acl("/c", vec![Acl { perms: 1, id: Id::new("digest", "a:b") }]).expect("there");
    assert!(bench.state.admit(ORIGIN, ProposalNumber(1), 12));
    bench
}

#[test]
fn a_snapshot_restores_the_whole_state() {
    let mut bench = busy();
    let bytes = bytes_of(&bench.state);
    for piece in [1, 7, 1 << 16, usize::MAX] {
        let copy = restore(&bytes, piece).expect("a snapshot");
        assert_eq!(copy.digest(), bench.state.digest());
        assert_eq!(copy.node_count(), bench.state.node_count());
        assert_eq!(copy.data_bytes(), bench.state.data_bytes());
        assert_eq!(copy.ephemerals(SESSION), bench.state.ephemerals(SESSION));
        assert_eq!(copy.stat("/n1"), bench.state.stat("/n1"));
        assert_eq!(copy.acl("/c"), bench.state.acl("/c"));
        assert_eq!(copy.session(SESSION), bench.state.session(SESSION));
        assert_eq!(bytes_of(&copy).len(), bytes.len());
    }
    let mut restored = copy(&bench.state);
    assert!(!restored.admit(ORIGIN, ProposalNumber(12), 1));
    assert!(restored.admit(ORIGIN, ProposalNumber(13), 1));
    std::mem::swap(&mut bench.state, &mut restored);
    bench.run(Op::CloseSession).expect("there");
    assert_eq!(bench.state.tree.ephemeral_owners(None).count(), 0);
}

#[test]
fn a_running_snapshot_does_not_see_later_writes() {
    let mut bench = busy();
    let (view, before) = (bench.state.snapshot(), bench.state.digest());
    bench.set("/n1", b"later", -1).expect("there");
    bench.run(Op::CloseSession).expect("there");
    let restored = State::restore(view.map(Ok::<_, String>)).expect("a snapshot");
    assert_eq!(restored.digest(), before);
    assert_ne!(restored.digest(), bench.state.digest());
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let mut bench = Bench::new();
    bench.create("/a", Ephemeral).expect("new");
    bench.create("/a2", Persistent).expect("new");
    bench.create("/a2/s", PersistentSequential).expect("new");
    let bytes = bytes_of(&bench.state);
    for at in 0..bytes.len() {
        assert!(restore(&bytes[..at], 100).is_err(), "cut at {at}");
        for bit in [0x01, 0x10, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= bit;
            assert!(restore(&damaged, 100).is_err(), "byte {at} ^ {bit:#x}");
        }
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(restore(&longer, 100).map(|_| ()), Err(RestoreError::Invalid("end")));
    assert_eq!(restore(&[9], 1).map(|_| ()), Err(RestoreError::Version(9)));
    let broken = State::restore([Err("broken")].into_iter());
    assert_eq!(broken.map(|_| ()), Err(RestoreError::Source("broken".into())));
}

/// New znodes take the places of deleted ones, the last first, and a snapshot has them by place.
#[test]
fn children_that_come_before_their_parents_are_restored() {
    let mut bench = Bench::new();
    for at in 0..5 {
        bench.create(&format!("/n{at}"), Persistent).expect("new");
    }
    for at in 0..5 {
        bench.delete(&format!("/n{at}"), -1).expect("there");
    }
    let mut path = String::new();
    for _ in 0..4 {
        path.push_str("/p");
        bench.create(&path, Persistent).expect("new");
    }
    bench.create("/p/p/e", Ephemeral).expect("new");
    let copy = copy(&bench.state);
    assert_eq!(copy.stat(&path), bench.state.stat(&path));
    assert_eq!(copy.ephemerals(SESSION), bench.state.ephemerals(SESSION));
    copy.check();

    // In front of a name is the number of its znode's parent. Those of the first two, "e" and the
    // deepest "p", are 4 and 5, behind the root and the three built-in ones.
    let bytes = bytes_of(&bench.state);
    let with_parent = |name: &[u8], parent: u32| {
        let mut bytes = bytes.clone();
        let name = bytes.windows(name.len()).position(|at| at == name).expect("there");
        bytes[name - 4..name].copy_from_slice(&parent.to_be_bytes());
        restore(&bytes, 100).map(|_| ())
    };
    assert_eq!(with_parent(b"\0\0\0\x01e", 7), Ok(()), "its parent as it was");
    let no_tree = Err(RestoreError::Invalid("tree"));
    assert_eq!(with_parent(b"\0\0\0\x01e", 100), no_tree, "a parent that is missing");
    assert_eq!(with_parent(b"\0\0\0\x01e", 4), no_tree, "its own parent");
    assert_eq!(with_parent(b"\0\0\0\x01p", 7), no_tree, "two siblings with one name");
}

#[test]
fn depth_costs_no_stack() {
    // A call for each level would take far more than the 13 bytes of stack that each can have.
    const DEPTH: usize = 10_000;
    let work = || {
        let mut bench = Bench::new();
        // The path of the deepest is long: a chain is built through the tree's own door, which
        // is what a log of creates comes down to.
        let mut parent = bench.state.tree.find("/").expect("the root");
        let acl = bench.state.tree.hold_acl(&Acl::open());
        for _ in 0..DEPTH {
            let node = znode::Znode::built_in(parent, acl);
            bench.state.tree.hold_acl(&Acl::open());
            parent = bench.state.tree.insert(node, "d", None);
        }
        let deepest = "/d".repeat(DEPTH);
        assert_eq!(bench.state.tree.path_of(parent), deepest);
        assert_eq!(bench.state.digest(), bench.state.digest_recomputed());
        bench.create(&format!("{deepest}/e"), Ephemeral).expect("new");
        let count = bench.read(&Request::GetAllChildrenNumber(at("/d")));
        assert_eq!(count, Ok(Reply::Count(i32::try_from(DEPTH).expect("small"))));
        bench.state = copy(&bench.state);
        bench.run(Op::CloseSession).expect("there");
        assert_eq!(bench.stat(&deepest).num_children, 0);
    };
    #[allow(clippy::disallowed_types, reason = "a small stack")]
    let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(work).expect("a thread");
    thread.join().expect("no overflow");
}

/// Servers of different builds compare digests of the same version. Where this fails because the
/// definition of the digest was changed, raise `DIGEST_VERSION` and put the new value here.
#[test]
fn the_digest_of_a_version_does_not_change() {
    let mut bench = Bench::new();
    bench.create("/a", Persistent).expect("new");
    bench.create("/a/b", Ephemeral).expect("new");
    bench.create("/a/c", CreateMode::Container).expect("new");
    assert_eq!((DIGEST_VERSION, bench.state.digest()), (1, 0x91f5_e904_fa60_5487));
}
