//! What goes into an outbox, what comes out, and who is woken.

use bytes::BufMut;

use super::*;

fn take(outbox: &Outbox) -> (Poll<Taken>, Vec<u8>) {
    let mut chunks = VecDeque::new();
    let taken = outbox.poll_take(&mut Context::from_waker(Waker::noop()), &mut chunks);
    let bytes = chunks.into_iter().flat_map(|chunk| match chunk {
        Chunk::Bytes(bytes) | Chunk::Uncounted { bytes, .. } => bytes.to_vec(),
        Chunk::Later(later) => later.pieces.flatten().collect(),
    });
    (taken, bytes.collect())
}

/// Adds an event of this many bytes.
fn event(outbox: &Outbox, bytes: usize) {
    outbox.push_event(|out| out.tail.put_bytes(0, bytes));
}

/// Adds a reply of this many bytes.
fn reply(outbox: &Outbox, bytes: usize) {
    outbox.push(|out| out.tail.put_bytes(0, bytes));
}

#[track_caller]
fn assert_full(outbox: &Outbox) {
    assert_eq!(take(outbox), (Poll::Ready(Taken::Closing(Closing::Full)), vec![]));
}

#[test]
fn frames_come_out_in_order_shared_ones_between_copied_ones() {
    let outbox = Outbox::new(100);
    outbox.push(|out| out.tail.put_slice(b"ab"));
    outbox.push(|out| {
        out.tail.put_slice(b"c");
        out.put_shared(Bytes::from_static(b"DEF"));
        out.tail.put_slice(b"g");
    });
    assert_eq!(outbox.unwritten_bytes(), 7);
    assert_eq!(take(&outbox), (Poll::Ready(Taken::Frames), b"abcDEFg".to_vec()));
    outbox.written(7, 7);
    assert_eq!(outbox.unwritten_bytes(), 0);
    assert_eq!(take(&outbox), (Poll::Pending, vec![]));
}

#[test]
fn a_finished_connection_writes_first_what_it_has_and_takes_no_more() {
    let outbox = Outbox::new(100);
    outbox.push(|out| out.tail.put_slice(b"last"));
    outbox.close(Closing::Finished);
    outbox.push(|out| out.tail.put_slice(b"late"));
    assert_eq!(take(&outbox), (Poll::Ready(Taken::Frames), b"last".to_vec()));
    assert_eq!(take(&outbox), (Poll::Ready(Taken::Closing(Closing::Finished)), vec![]));
}

#[test]
fn an_outbox_full_of_events_ends_the_connection_and_frees_its_memory() {
    let outbox = Outbox::new(10);
    event(&outbox, 10);
    assert_eq!(take(&outbox).1.len(), 10);
    // Bytes taken from the outbox still count until the socket has them.
    event(&outbox, 1);
    assert_full(&outbox);
}

#[test]
fn neither_replies_nor_an_event_among_them_make_a_client_slow() {
    let outbox = Outbox::new(10);
    event(&outbox, 9);
    for _ in 0..3 {
        reply(&outbox, 20);
    }
    event(&outbox, 1);
    assert_eq!(take(&outbox).1.len(), 70);
    // Everything is written once, so the count of events starts again from zero.
    outbox.written(70, 70);
    reply(&outbox, 20);
    event(&outbox, 10);
    assert_eq!(take(&outbox).1.len(), 30);
    event(&outbox, 1);
    assert_full(&outbox);
}

#[test]
fn one_frame_longer_than_the_limit_goes_out() {
    let outbox = Outbox::new(10);
    outbox.push(|out| out.tail.put_slice(&[7; 100]));
    assert_eq!(take(&outbox), (Poll::Ready(Taken::Frames), vec![7; 100]));
    outbox.written(100, 100);
    outbox.push(|out| out.tail.put_slice(&[8; 9]));
    outbox.push(|out| out.tail.put_slice(&[9; 100]));
    assert_eq!(take(&outbox).1.len(), 109);
}

#[test]
fn an_outbox_whose_frames_are_taken_keeps_no_memory() {
    let outbox = Outbox::new(100);
    outbox.push(|out| {
        out.tail.put_slice(b"copied");
        out.put_shared(Bytes::from_static(b"shared"));
        out.tail.put_slice(b"copied");
    });
    assert_eq!(take(&outbox).1.len(), 18);
    let inner = outbox.lock();
    assert_eq!((inner.chunks.capacity(), inner.tail.capacity()), (0, 0));
}

#[test]
fn a_task_that_fills_its_own_outbox_is_not_woken_by_it() {
    let outbox = Outbox::new(100);
    assert!(take(&outbox).0.is_pending());
    outbox.forget_waker();
    assert!(outbox.push(|out| out.tail.put_u8(1)).is_none());
    assert!(take(&outbox).0.is_ready());
}

#[test]
fn a_task_that_waits_for_its_socket_is_woken_by_an_end_alone() {
    let outbox = Outbox::new(10);
    let context = Context::from_waker(Waker::noop());
    event(&outbox, 10);
    assert_eq!(take(&outbox).1.len(), 10);
    assert!(outbox.poll_end(&context).is_pending());
    assert!(outbox.push(|out| out.tail.put_u8(1)).is_none());
    assert!(outbox.close(Closing::Finished).is_none());
    assert!(outbox.close(Closing::TooLong).is_some());
    assert_eq!(outbox.poll_end(&context), Poll::Ready(Closing::TooLong));
}

#[test]
fn only_a_task_that_waits_is_woken_and_only_once() {
    let outbox = Outbox::new(100);
    assert!(outbox.push(|out| out.tail.put_u8(1)).is_none());
    assert!(take(&outbox).0.is_ready());
    assert!(take(&outbox).0.is_pending());
    assert!(outbox.push(|out| out.tail.put_u8(2)).is_some());
    assert!(outbox.push(|out| out.tail.put_u8(3)).is_none());
}
