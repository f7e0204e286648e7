//! Servers that have lost their ensemble: P9.

use super::{Story, accepted, get_data, lie, refused};

#[test]
fn a_server_that_serves_old_states_for_too_long_is_found() {
    let history = |wait_ms: u64| {
        let mut story = Story::new();
        let (client, other) = (story.connect(0, 1), story.connect(1, 2));
        story.create(client, "/a", 0);
        let known = story.create(client, "/b", 0);
        story.create(client, "/c", 0);
        story.wait(wait_ms);
        let call = story.read(other, get_data("/a"));
        // The model agrees: /a is the same at the older zxid.
        lie(&story.end(), call, |zxid, _| *zxid = known)
    };
    accepted(&history(14_000));
    refused(&history(15_100), "P9 alone");
}
