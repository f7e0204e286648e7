//! [`LeaderLatch`] and [`LeaderSelector`].

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{
    LeaderLatch, LeaderSelector, LeadershipState, Loss, Suspension, Term,
};
use zoolet_client::{CreateMode, ErrorKind, Version};
use zoolet_tests::scenes::{Scene, connect, soon};
use zoolet_torture::proxy::Proxy;

use crate::harness::{Fenced, RecipeScene, cancelled_at_every_await};

const LONG: Duration = Duration::from_secs(10);

pub(crate) async fn one_latch_leads_and_the_next_one_follows(scene: &Scene) {
    let path = scene.path();
    let (one, other) = (scene.client().await, scene.client().await);
    let first = LeaderLatch::start(&one, &path, "first");
    let token = timeout(LONG, first.lead()).await.unwrap().unwrap();
    let second = LeaderLatch::start(&other, &path, "second");
    scene.until_children(&one, &path, 2).await;
    assert!(second.lead_timeout(Duration::from_millis(200)).await.unwrap().is_none());
    let participants = second.participants().await.unwrap();
    let ids: Vec<(&str, bool)> =
        participants.iter().map(|member| (member.id.as_str(), member.leads)).collect();
    assert_eq!(ids, [("first", true), ("second", false)]);
    let name = participants[0].path.strip_prefix(&format!("{path}/_c_")).unwrap();
    assert_eq!(name.len(), 36 + "-latch-".len() + 10, "{name}");

    let target = format!("{path}-target");
    one.create(&target, b"", CreateMode::Persistent).await.unwrap();
    first.guarded().unwrap().set_data(&target, b"first", Version::Any).commit().await.unwrap();
    assert_eq!(first.write(&target, b"again", Version::Any).await.unwrap().version, 2);
    assert!(first.remaining() > Duration::ZERO && second.remaining().is_zero());
    second.lost().await;
    assert!(timeout(Duration::from_millis(50), first.lost()).await.is_err());
    assert_eq!(*second.guarded().unwrap_err().kind(), ErrorKind::LockLost);
    timeout(LONG, first.close()).await.unwrap().unwrap();
    let next = timeout(LONG, second.lead()).await.unwrap().unwrap();
    assert!(next > token);
    assert_eq!(second.leader().await.unwrap().unwrap().id, "second");
    drop(second);
    scene.until_children(&one, &path, 0).await;
}

pub(crate) async fn a_latch_whose_session_ends_leads_no_more(scene: &Scene) {
    let path = scene.path();
    let (one, other) = (scene.client().await, scene.client().await);
    let first = LeaderLatch::start(&one, &path, "");
    first.lead().await.unwrap();
    let second = LeaderLatch::start(&other, &path, "");
    scene.until_children(&other, &path, 2).await;
    scene.expire(&one).await;
    timeout(LONG, first.lost()).await.unwrap();
    timeout(LONG, second.lead()).await.unwrap().unwrap();
    soon("the former leader knows", async || {
        matches!(&*first.standing().borrow(), LeadershipState::Ended(_))
    })
    .await;
    assert!(first.lead().await.unwrap_err().ends_session());
    assert!(first.try_lead().await.unwrap_err().ends_session());
    // A znode that is deleted by hand: it queues up again.
    let path_of = |latch: &LeaderLatch| match &*latch.standing().borrow() {
        LeadershipState::Leading { path, .. } => path.clone(),
        other @ (LeadershipState::Waiting | LeadershipState::Ended(_) | _) => panic!("{other:?}"),
    };
    let lost = path_of(&second);
    other.delete(&lost, Version::Any).await.unwrap();
    assert!(timeout(LONG, second.try_lead()).await.unwrap().unwrap().is_some());
    soon("a new term", async || second.is_leader() && path_of(&second) != lost).await;
}

pub(crate) async fn a_latch_steps_down_when_it_is_cut_off(scene: &Scene) {
    let path = scene.path();
    for (suspension, stays) in [(Suspension::StepDown, false), (Suspension::StayOn, true)] {
        let proxy = Proxy::start(&scene.servers).await.unwrap();
        let client = connect(&proxy.connect_string()).await;
        let latch = LeaderLatch::start_with(&client, &path, "", suspension);
        let token = timeout(LONG, latch.lead()).await.unwrap().unwrap();
        proxy.cut();
        if stays {
            sleep(Duration::from_millis(300)).await;
            assert!(latch.is_leader());
        } else {
            soon("it steps down", async || !latch.is_leader()).await;
            let short = Duration::from_millis(100);
            assert!(timeout(short, latch.try_lead()).await.is_err(), "no server was asked");
        }
        proxy.heal();
        // Back in time, it leads on, or again: then in another term.
        let again = timeout(LONG, latch.lead()).await.unwrap().unwrap();
        assert!(if stays { again == token } else { again > token }, "{again} after {token}");
        timeout(LONG, latch.close()).await.unwrap().unwrap();
    }
}

pub(crate) async fn latches_survive_lost_replies(scene: &Scene) {
    scene
        .under_every_fault(async |client, path| {
            let latch = LeaderLatch::start(&client, &path, "me");
            latch.lead().await.unwrap();
            assert_eq!(latch.participants().await.unwrap().len(), 1);
            latch.close().await.unwrap();
        })
        .await;
}

pub(crate) async fn selectors_take_turns(scene: &Scene) {
    let (watcher, path) = (scene.client().await, scene.path());
    let (inside, fenced) = (Arc::new(AtomicUsize::new(0)), Arc::new(Fenced::default()));
    let mut contenders = JoinSet::new();
    for number in 0..4 {
        let client = scene.client().await;
        let selector = LeaderSelector::with_id(&client, &path, &format!("member {number}"));
        let (inside, fenced) = (Arc::clone(&inside), Arc::clone(&fenced));
        contenders.spawn(async move {
            for _ in 0..3 {
                let term = selector
                    .lead(async |guard| {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        fenced.grant(guard.token());
                        let leader = selector.leader().await.unwrap().unwrap();
                        assert_eq!(leader.id, format!("member {number}"));
                        inside.fetch_sub(1, Ordering::SeqCst);
                        number
                    })
                    .await;
                assert_eq!(term.unwrap(), Term::Done(number));
            }
        });
    }
    while let Some(ended) = contenders.join_next().await {
        ended.unwrap();
    }
    scene.until_children(&watcher, &path, 0).await;
}

pub(crate) async fn a_selector_drops_the_work_of_a_lost_term(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let selector = LeaderSelector::new(&one, &path);
    let term = tokio::spawn({
        let selector = selector.clone();
        async move { selector.lead(|_| pending::<()>()).await }
    });
    scene.until_children(&other, &path, 1).await;
    let leader = selector.leader().await.unwrap().unwrap();
    other.delete(&leader.path, Version::Any).await.unwrap();
    let ended = timeout(LONG, term).await.unwrap().unwrap();
    assert_eq!(ended.unwrap(), Term::Lost(Loss::Deleted));

    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let client = connect(&proxy.connect_string()).await;
    let cut_off = LeaderSelector::new(&client, &path);
    let ((begun, begins), (kept, dropped)) = (oneshot::channel(), oneshot::channel::<()>());
    let work = async move |_| {
        let _kept = kept;
        begun.send(()).unwrap();
        pending::<()>().await;
    };
    let term = tokio::spawn(async move { cut_off.lead(work).await });
    timeout(LONG, begins).await.unwrap().unwrap();
    proxy.cut();
    // The work ends before there is a connection again.
    timeout(LONG, dropped).await.unwrap().unwrap_err();
    let ended = timeout(Duration::from_secs(5), term).await.unwrap().unwrap();
    assert_eq!(ended.unwrap(), Term::Suspended);
    proxy.heal();
    scene.until_children(&other, &path, 0).await;

    let looping = {
        let selector = selector.clone();
        tokio::spawn(async move { selector.lead_until_error(async |_| ()).await })
    };
    scene.expire(&one).await;
    assert!(timeout(LONG, looping).await.unwrap().unwrap().ends_session());
    scene.until_children(&other, &path, 0).await;
}

/// The create may be under way when the latch is closed.
pub(crate) async fn a_latch_that_is_closed_early_leaves_nothing_behind(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    LeaderLatch::start(&one, &path, "").close().await.unwrap();
    for wait_us in (0..40).map(|step| step * 100) {
        let latch = LeaderLatch::start(&one, &path, "");
        sleep(Duration::from_micros(wait_us)).await;
        timeout(LONG, latch.close()).await.unwrap().unwrap();
        assert_eq!(scene.children(&other, &path).await, [""; 0], "after {wait_us} µs");
    }
}

pub(crate) async fn leadership_is_tried_and_waited_for_in_time(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let first = LeaderLatch::start(&one, &path, "first");
    let token = timeout(LONG, first.try_lead()).await.unwrap().unwrap().expect("it is alone");
    assert_eq!(first.token(), Some(token));
    let second = LeaderLatch::start(&other, &path, "second");
    assert_eq!(timeout(LONG, second.try_lead()).await.unwrap().unwrap(), None);
    timeout(LONG, first.close()).await.unwrap().unwrap();
    scene.caught_up().await;
    let next = timeout(LONG, second.try_lead()).await.unwrap().unwrap();
    assert!(next.expect("it has contended on, and looks anew") > token);
    timeout(LONG, second.close()).await.unwrap().unwrap();

    let (client, path) = (&one, scene.path());
    let left = async || scene.until_children(client, &path, 0).await;
    let cancelled = LeaderSelector::new(&other, &path);
    cancelled_at_every_await(|| cancelled.try_lead(async |_| ()), left).await;
    cancelled_at_every_await(|| cancelled.lead_timeout(LONG, async |_| ()), left).await;
    let (one, other) = (LeaderSelector::new(&one, &path), LeaderSelector::new(&other, &path));
    let work = async |_| {
        assert_eq!(other.try_lead(async |_| ()).await.unwrap(), None);
        let short = Duration::from_millis(100);
        assert_eq!(other.lead_timeout(short, async |_| ()).await.unwrap(), None);
        let alone = async || other.participants().await.unwrap().len() == 1;
        soon("the others have left", alone).await;
        7
    };
    assert_eq!(one.try_lead(work).await.unwrap(), Some(Term::Done(7)));
    assert_eq!(other.lead_timeout(LONG, async |_| 7).await.unwrap(), Some(Term::Done(7)));
    scene
        .under_every_fault(async |client, path| {
            let latch = LeaderLatch::start(&client, &format!("{path}/latch"), "me");
            assert!(latch.try_lead().await.unwrap().is_some());
            latch.close().await.unwrap();
            let selector = LeaderSelector::new(&client, &format!("{path}/selector"))
                .suspension(Suspension::StayOn);
            assert_eq!(selector.try_lead(async |_| 7).await.unwrap(), Some(Term::Done(7)));
        })
        .await;
}
