//! K8: queues, counters, barriers of both kinds, caches and groups.

use std::collections::BTreeMap;

use bytes::Bytes;
use zoolet_jute::{Acl, CreateRequest, Request, SetDataRequest, Zxid};

use super::{Client, Story, accepted, delete, refused, set_data, without};
use crate::history::{History, RecipeStep, What};

const QUEUE: &str = "/queue";
const COUNTER: &str = "/counter";
const BARRIER: &str = "/barrier";
const TREE: &str = "/tree";
const GATE: &str = "/gate";
const GROUP: &str = "/group";

fn note(story: &mut Story, client: Client, path: &str, step: RecipeStep) {
    story.note(What::Recipe { client: client.number, path: path.to_owned(), step });
}

fn item(name: &'static str) -> Bytes {
    Bytes::from_static(name.as_bytes())
}

fn put(story: &mut Story, client: Client, name: &'static str) {
    note(story, client, QUEUE, RecipeStep::Puts { item: item(name) });
    let path = format!("{QUEUE}/{name}");
    story.create(client, &path, 0);
    let data = Some(item(name));
    story.write(client, Request::SetData(SetDataRequest { path, data, version: -1 }));
    note(story, client, QUEUE, RecipeStep::Put { item: item(name) });
}

fn take(story: &mut Story, client: Client, name: &'static str) {
    note(story, client, QUEUE, RecipeStep::Takes);
    story.write(client, delete(&format!("{QUEUE}/{name}")));
    note(story, client, QUEUE, RecipeStep::Took { item: Some(item(name)) });
}

fn pair(path: &str) -> (Story, Client, Client) {
    let mut story = Story::new();
    let (one, two) = (story.connect(1, 1), story.connect(2, 2));
    story.create(one, path, 0);
    (story, one, two)
}

/// Two items, of which one is taken and one is left.
fn queue() -> History {
    let (mut story, one, two) = pair(QUEUE);
    put(&mut story, one, "a");
    put(&mut story, one, "b");
    take(&mut story, two, "a");
    note(&mut story, two, QUEUE, RecipeStep::Takes);
    note(&mut story, two, QUEUE, RecipeStep::Took { item: None });
    story.end()
}

fn added_record(history: &History, step: RecipeStep) -> History {
    let mut history = history.clone();
    let is_recipe = |what: &What| matches!(what, What::Recipe { .. });
    let like = history.records.iter().rev().find(|record| is_recipe(&record.what)).unwrap();
    let mut record = like.clone();
    let What::Recipe { step: of_record, .. } = &mut record.what else { panic!("{record:?}") };
    *of_record = step;
    history.records.push(record);
    history
}

#[test]
fn items_that_are_taken_once_or_left_are_accepted() {
    assert_eq!(accepted(&queue()).items, 2);
}

#[test]
fn an_item_that_is_taken_twice_is_refused() {
    let twice = RecipeStep::Took { item: Some(item("a")) };
    let history = added_record(&added_record(&queue(), RecipeStep::Takes), twice);
    refused(&history, "K8 queue");
}

#[test]
fn an_item_that_is_taken_and_left_is_refused() {
    let left = RecipeStep::Took { item: Some(item("b")) };
    refused(&added_record(&added_record(&queue(), RecipeStep::Takes), left), "K8 queue");
}

#[test]
fn an_item_that_no_client_has_put_is_refused() {
    let foreign = RecipeStep::Took { item: Some(item("c")) };
    refused(&added_record(&added_record(&queue(), RecipeStep::Takes), foreign), "K8 queue");
}

#[test]
fn an_item_is_lost_unless_a_take_has_no_outcome() {
    let took = |what: &What| {
        let What::Recipe { step, .. } = what else { return false };
        matches!(step, RecipeStep::Took { item: Some(_) })
    };
    let in_doubt = without(&queue(), took);
    assert_eq!(accepted(&in_doubt).items_in_doubt, 1);
    let lost =
        without(&in_doubt, |what| matches!(what, What::Recipe { step: RecipeStep::Takes, .. }));
    refused(&without_end_of_takes(&lost), "K8 queue");
}

/// Without the takes that found nothing, whose begin is gone as well.
fn without_end_of_takes(history: &History) -> History {
    without(history, |what| matches!(what, What::Recipe { step: RecipeStep::Took { .. }, .. }))
}

/// Puts an item with this name, and the name as its data.
fn put_named(story: &mut Story, client: Client, name: &'static str) {
    note(story, client, QUEUE, RecipeStep::Puts { item: item(name) });
    let (path, data) = (format!("{QUEUE}/{name}"), Some(item(name)));
    let acl = Some(Acl::open());
    story.write(client, Request::Create2(CreateRequest { path, data, acl, flags: 0 }));
    note(story, client, QUEUE, RecipeStep::Put { item: item(name) });
}

#[test]
fn an_item_that_leaves_before_one_with_a_lower_number_is_refused() {
    const FIRST: &str = "queue-0000000003";
    const SECOND: &str = "queue-0000000004";
    let taken_in = |order: [&'static str; 2]| {
        let (mut story, one, two) = pair(QUEUE);
        put_named(&mut story, one, FIRST);
        put_named(&mut story, one, SECOND);
        for name in order {
            take(&mut story, two, name);
        }
        story.end()
    };
    assert_eq!(accepted(&taken_in([FIRST, SECOND])).departures, 2);
    refused(&taken_in([SECOND, FIRST]), "K8 queue in turn");
}

#[test]
fn an_item_that_leaves_before_one_that_was_in_front_is_refused() {
    const URGENT: &str = "queue-1000000010000000004";
    const OTHER: &str = "queue-1000000020000000003";
    let with_take_begun = |is_begun_first: bool| {
        let (mut story, one, two) = pair(QUEUE);
        put_named(&mut story, one, OTHER);
        if is_begun_first {
            note(&mut story, two, QUEUE, RecipeStep::Takes);
        }
        put_named(&mut story, one, URGENT);
        story.wait(5);
        if !is_begun_first {
            note(&mut story, two, QUEUE, RecipeStep::Takes);
        }
        story.write(two, delete(&format!("{QUEUE}/{OTHER}")));
        note(&mut story, two, QUEUE, RecipeStep::Took { item: Some(item(OTHER)) });
        story.end()
    };
    // The take may not have seen what came when it had begun.
    assert_eq!(accepted(&with_take_begun(true)).departures, 1);
    refused(&with_take_begun(false), "K8 queue in turn");
}

fn add(story: &mut Story, client: Client, sum: i64) {
    note(story, client, COUNTER, RecipeStep::Adds);
    let data = Some(Bytes::copy_from_slice(&sum.to_be_bytes()));
    let path = COUNTER.to_owned();
    story.write(client, Request::SetData(SetDataRequest { path, data, version: -1 }));
    note(story, client, COUNTER, RecipeStep::Added { sum });
}

fn counter(sums: &[i64]) -> History {
    let (mut story, one, two) = pair(COUNTER);
    for (client, sum) in [one, two].into_iter().cycle().zip(sums) {
        add(&mut story, client, *sum);
    }
    story.end()
}

#[test]
fn additions_that_all_count_are_accepted() {
    assert_eq!(accepted(&counter(&[1, 2, 3])).additions, 3);
}

#[test]
fn an_addition_that_is_lost_or_counts_twice_is_refused() {
    // Two have the same sum; one counts twice; one goes back.
    for sums in [[1, 1, 2], [1, 2, 4], [2, 1, 3]] {
        refused(&counter(&sums), "K8 counter");
    }
}

#[test]
fn an_addition_without_an_outcome_may_count_or_not() {
    let last =
        |what: &What| matches!(what, What::Recipe { step: RecipeStep::Added { sum: 3 | 4 }, .. });
    accepted(&without(&counter(&[1, 2, 3]), last));
    accepted(&without(
        &counter(&[1, 2, 2]),
        |what| matches!(what, What::Recipe { step: RecipeStep::Added { sum: 2 }, client, .. } if client.0 == 2),
    ));
    refused(&without(&counter(&[1, 2, 4]), last), "K8 counter");
}

/// Two members who enter, and leave.
fn barrier(opens_early: bool, second_leaves: bool) -> History {
    let (mut story, one, two) = pair(BARRIER);
    let members = 2;
    note(&mut story, one, BARRIER, RecipeStep::Enters { members });
    story.create(one, "/barrier/one", 1);
    if opens_early {
        story.create(one, "/barrier/ready", 0);
    }
    note(&mut story, two, BARRIER, RecipeStep::Enters { members });
    story.create(two, "/barrier/two", 1);
    if !opens_early {
        story.create(two, "/barrier/ready", 0);
    }
    for client in [one, two] {
        note(&mut story, client, BARRIER, RecipeStep::Entered { session: client.session });
    }
    note(&mut story, one, BARRIER, RecipeStep::Leaves);
    story.write(one, delete("/barrier/one"));
    if second_leaves {
        note(&mut story, two, BARRIER, RecipeStep::Leaves);
    }
    story.write(two, delete("/barrier/two"));
    note(&mut story, one, BARRIER, RecipeStep::Left);
    story.end()
}

#[test]
fn members_who_enter_and_leave_together_are_accepted() {
    assert_eq!(accepted(&barrier(false, true)).passages, 2);
}

#[test]
fn a_barrier_that_opens_for_one_less_is_refused() {
    refused(&barrier(true, true), "K8 barrier");
}

#[test]
fn a_member_that_enters_before_the_barrier_opens_is_refused() {
    let (mut story, one, _) = pair(BARRIER);
    note(&mut story, one, BARRIER, RecipeStep::Enters { members: 2 });
    story.create(one, "/barrier/one", 1);
    note(&mut story, one, BARRIER, RecipeStep::Entered { session: one.session });
    refused(&story.end(), "K8 barrier");
}

#[test]
fn a_member_that_has_left_where_another_one_does_not_leave_is_refused() {
    refused(&barrier(false, false), "K8 barrier");
}

#[test]
fn a_member_that_has_left_where_the_znode_of_another_one_stays_is_refused() {
    let (mut story, one, two) = pair(BARRIER);
    for (client, name) in [(one, "one"), (two, "two")] {
        note(&mut story, client, BARRIER, RecipeStep::Enters { members: 2 });
        story.create(client, &format!("{BARRIER}/{name}"), 1);
    }
    story.create(two, "/barrier/ready", 0);
    for client in [one, two] {
        note(&mut story, client, BARRIER, RecipeStep::Entered { session: client.session });
        note(&mut story, client, BARRIER, RecipeStep::Leaves);
    }
    story.write(one, delete("/barrier/one"));
    note(&mut story, one, BARRIER, RecipeStep::Left);
    refused(&story.end(), "K8 barrier");
}

/// A cache that is asked long behind the last change, and another change a moment before.
fn cache(change: impl Fn(&mut BTreeMap<String, (Zxid, Bytes)>)) -> History {
    let (mut story, one, other) = pair(TREE);
    let zxid = story.create(one, "/tree/a", 0);
    let root = story.state.tree.get(TREE).unwrap().mzxid;
    let healed_at = story.now;
    for _ in 0..4 {
        story.wait(2000);
        story.ping(one);
        story.ping(other);
    }
    // It may know of this one or not.
    let two = story.connect(3, 1);
    story.create(two, "/tree/b", 0);
    let data = Bytes::from_static(b"data");
    let mut znodes = BTreeMap::from([
        (TREE.to_owned(), (root, data.clone())),
        ("/tree/a".to_owned(), (zxid, data)),
    ]);
    change(&mut znodes);
    note(&mut story, one, TREE, RecipeStep::Shows { znodes });
    let mut history = story.end();
    history.healed_at = healed_at;
    history
}

#[test]
fn a_cache_that_shows_the_tree_is_accepted() {
    assert_eq!(accepted(&cache(|_| {})).cached, 2);
}

#[test]
fn a_cache_that_misses_a_znode_or_has_an_old_one_is_refused() {
    refused(&cache(|znodes| drop(znodes.remove("/tree/a"))), "K8 cache");
    let gone = |znodes: &mut BTreeMap<_, _>| {
        znodes.insert("/tree/c".to_owned(), (Zxid(1), Bytes::new()));
    };
    refused(&cache(gone), "K8 cache");
    let old = |znodes: &mut BTreeMap<String, (Zxid, Bytes)>| {
        znodes.get_mut("/tree/a").unwrap().1 = Bytes::from_static(b"old");
    };
    refused(&cache(old), "K8 cache");
}

/// An item that the queue still has, in the frame of Curator's queue with priorities.
#[test]
fn an_item_in_a_frame_is_known() {
    let framed = |data: &'static [u8]| {
        let (mut story, one, two) = pair(QUEUE);
        note(&mut story, one, QUEUE, RecipeStep::Puts { item: item("a") });
        let path = format!("{QUEUE}/a");
        story.create(one, &path, 0);
        let data = Some(Bytes::from_static(data));
        story.write(one, Request::SetData(SetDataRequest { path, data, version: -1 }));
        note(&mut story, one, QUEUE, RecipeStep::Put { item: item("a") });
        note(&mut story, two, QUEUE, RecipeStep::Takes);
        note(&mut story, two, QUEUE, RecipeStep::Took { item: None });
        story.end()
    };
    accepted(&framed(b"\0\x01\0\x01\x01\0\0\0\x01a\x02"));
    refused(&framed(b"\0\x01\0\x01\x01\0\0\0\x01a"), "K8 queue");
}

#[test]
fn a_shared_count_has_four_bytes() {
    let count = |last: i32| {
        let (mut story, one, _) = pair(COUNTER);
        note(&mut story, one, COUNTER, RecipeStep::Adds);
        let (path, data) = (COUNTER.to_owned(), Some(Bytes::copy_from_slice(&last.to_be_bytes())));
        story.write(one, Request::SetData(SetDataRequest { path, data, version: -1 }));
        note(&mut story, one, COUNTER, RecipeStep::Added { sum: 1 });
        story.end()
    };
    accepted(&count(1));
    refused(&count(2), "K8 counter");
}

/// A wait for a barrier that is taken away `gone` ms behind its begin, and set up again after `shut` ms
/// more; it ends after 40 s.
fn gate(gone: Option<(u64, Option<u64>)>, is_open: bool) -> History {
    let (mut story, one, two) = pair(GATE);
    let healed_at = story.now;
    story.wait(20_000);
    note(&mut story, two, GATE, RecipeStep::Awaits);
    let mut left = 40_000;
    if let Some((gone, shut)) = gone {
        story.wait(gone);
        story.write(one, delete(GATE));
        left -= gone;
        if let Some(shut) = shut {
            story.wait(shut);
            story.create(one, GATE, 0);
            left -= shut;
        }
    }
    for _ in 0..left / 2000 {
        story.wait(2000);
        story.ping(one);
        story.ping(two);
    }
    note(&mut story, two, GATE, RecipeStep::Awaited { is_open });
    let mut history = story.end();
    history.healed_at = healed_at;
    history
}

#[test]
fn a_wait_ends_when_the_barrier_is_not_there() {
    assert_eq!(accepted(&gate(Some((10, None)), true)).waits, 1);
    accepted(&gate(Some((10, Some(100))), true));
    accepted(&gate(None, false));
    accepted(&gate(Some((38_000, None)), false));
    refused(&gate(None, true), "K8 gate");
    refused(&gate(Some((10, None)), false), "K8 gate");
}

/// A member that says when all is quiet that it is one.
fn group(path: &str, flags: i32, data: &'static str) -> History {
    let (mut story, one, other) = pair(GROUP);
    story.create(one, path, flags);
    story.write(one, set_data(path, "own"));
    let healed_at = story.now;
    for _ in 0..4 {
        story.wait(2000);
        story.ping(one);
        story.ping(other);
    }
    let (session, data) = (one.session, Bytes::from_static(data.as_bytes()));
    note(&mut story, one, GROUP, RecipeStep::IsMember { id: "1".to_owned(), session, data });
    let mut history = story.end();
    history.healed_at = healed_at;
    history
}

#[test]
fn a_member_has_its_znode_with_its_data() {
    assert_eq!(accepted(&group("/group/1", 1, "own")).members, 1);
    refused(&group("/group/2", 1, "own"), "K8 group");
    refused(&group("/group/1", 0, "own"), "K8 group");
    refused(&group("/group/1", 1, "other"), "K8 group");
}
