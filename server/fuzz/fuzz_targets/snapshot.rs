//! The bytes of a snapshot. A wrong digest at their end refuses nearly everything that a fuzzer
//! makes, so it is put right, and what is behind it is tried as well.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use zoolet_jute::{PathWatchRequest, Request, SessionId};
use zoolet_replica::state::{RestoreError, State};

const DIGEST_BYTES: usize = 8;

fn restore(bytes: &[u8]) -> Result<State, RestoreError> {
    let pieces = bytes.chunks(100).map(|piece| Ok::<_, String>(Bytes::copy_from_slice(piece)));
    State::restore(pieces)
}

fuzz_target!(|bytes: &[u8]| {
    let state = match restore(bytes) {
        Ok(state) => state,
        Err(RestoreError::Digest { computed, .. }) => {
            let mut mended = bytes[..bytes.len() - DIGEST_BYTES].to_vec();
            mended.extend(computed.to_be_bytes());
            restore(&mended).expect("only the digest was wrong")
        }
        Err(_) => return,
    };
    state.check();
    let copy = State::restore(state.snapshot().map(Ok::<_, String>)).expect("its own snapshot");
    assert_eq!(copy.digest(), state.digest());
    let request = Request::GetChildren2(PathWatchRequest { path: "/".to_owned(), watch: false });
    let read = |state: &State| state.read(&request, SessionId::NONE, &[], true);
    assert_eq!(read(&copy), read(&state));
});
