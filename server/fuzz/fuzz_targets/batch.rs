//! An entry of the log. Whatever it holds, applying it panics nowhere, the digest stays the one
//! that the whole state has, and a snapshot brings the state back.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use zoolet_replica::{Batch, Stamp, Term, state::State};

const TERM: Term = Term(7);

fuzz_target!(|bytes: &[u8]| {
    let input = Bytes::copy_from_slice(bytes);
    let head = Batch::head(&input);
    let Ok(batch) = Batch::decode(input) else { return };
    let head = head.expect("a batch that is decoded has a head");
    assert_eq!((head.origin, head.count), (batch.origin, batch.commands.len() as u64));
    assert_eq!(Batch::decode(batch.encode()).as_ref(), Ok(&batch));

    let stamp = Stamp { term: TERM, now_ms: batch.now_ms };
    let mut state = State::new();
    if state.admit(head.origin, head.first, head.count) {
        for command in batch.commands {
            let before = state.last_zxid();
            let applied = state.apply(stamp, head.origin, command);
            assert!(applied.zxid > before && applied.zxid == state.last_zxid());
        }
    }
    state.check();
    let copy = State::restore(state.snapshot().map(Ok::<_, String>)).expect("its own snapshot");
    assert_eq!(copy.digest(), state.digest());
});
