//! Connections over links that fail.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use zoolet_server::internals::{Net, Stream};

use super::*;

const ONE: MachineId = MachineId(1);
const TWO: MachineId = MachineId(2);
const ADDRESS: &str = "10.0.0.2:2181";

/// Two machines whose programs share a runtime, and the time of their network.
struct Bench {
    network: Network,
    runtime: Runtime,
    now: SimTime,
}

impl Bench {
    fn new() -> Self {
        let network = Network::new(Chance::of(7, "bench"));
        network.power_on(ONE);
        network.power_on(TWO);
        let runtime = Builder::new_current_thread().build().unwrap();
        Self { network, runtime, now: SimTime::default() }
    }

    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(work)
    }

    /// Goes on by some milliseconds.
    fn go(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now = self.now + Duration::from_millis(1);
            self.network.advance(self.now);
            self.runtime.block_on(async {
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
            });
        }
    }

    fn result<T>(&self, task: JoinHandle<T>) -> T {
        assert!(task.is_finished());
        self.runtime.block_on(task).unwrap()
    }

    /// Both ends of a connection.
    fn connected(&mut self) -> (Box<dyn Stream>, Box<dyn Stream>) {
        let there = self.network.of(TWO);
        let accepting = self.spawn(async move {
            let mut listener = there.listen(ADDRESS, 10).await.unwrap();
            listener.accept().await.unwrap().0
        });
        let here = self.network.of(ONE);
        let calling = self.spawn(async move { Net::connect(&here, ADDRESS).await.unwrap() });
        self.go(10);
        (self.result(calling), self.result(accepting))
    }
}

/// The bytes that open a connection for a lane.
fn opening_of(lane: u8) -> Vec<u8> {
    let mut opening = b"zoopeer\n".to_vec();
    opening.resize(94, 0);
    opening[60] = lane;
    opening
}

/// Writes pieces to a connection of a lane, and returns the number of bytes that the other end reads.
fn carried(bench: &mut Bench, lane: u8, pieces: &[usize]) -> JoinHandle<usize> {
    let (mut caller, mut callee) = bench.connected();
    let pieces = pieces.to_vec();
    bench.spawn(async move {
        caller.write_all(&opening_of(lane)).await.unwrap();
        for bytes in pieces {
            caller.write_all(&vec![1; bytes]).await.unwrap();
        }
        std::future::pending::<()>().await;
    });
    bench.spawn(async move {
        let mut read = 0;
        while read < 1000 {
            read += callee.read(&mut [0; 4096]).await.unwrap();
        }
        read
    })
}

/// The simulator could not find a follower that heard heartbeats and received no entries: its links
/// struck all connections alike, and pieces of all lengths.
#[test]
fn long_pieces_are_lost_on_one_lane_in_one_direction_until_it_is_mended() {
    let mut bench = Bench::new();
    let fault = LaneFault { lane: Some(2), piece_bytes_max: 700, bytes_per_ms: 0 };
    bench.network.set_lane_fault(ONE, TWO, fault);
    let short = carried(&mut bench, 2, &[600, 600]);
    bench.go(10);
    assert_eq!(bench.result(short), 94 + 1200);
    let other = carried(&mut bench, 1, &[1200]);
    bench.go(10);
    assert_eq!(bench.result(other), 94 + 1200);
    let long = carried(&mut bench, 2, &[600, 1200, 100]);
    bench.go(60_000);
    assert!(!long.is_finished());
    bench.network.mend_lanes(ONE, TWO);
    bench.go(10);
    assert_eq!(bench.result(long), 94 + 1900);
}

#[test]
fn a_slow_lane_is_slow_until_it_is_mended() {
    let mut bench = Bench::new();
    let fault = LaneFault { lane: None, piece_bytes_max: 0, bytes_per_ms: 1 };
    bench.network.set_lane_fault(ONE, TWO, fault);
    let slow = carried(&mut bench, 5, &[600, 600]);
    bench.go(1000);
    assert!(!slow.is_finished());
    bench.network.mend_lanes(ONE, TWO);
    bench.go(10);
    assert_eq!(bench.result(slow), 94 + 1200);
}

#[test]
fn what_is_written_arrives_in_order_and_the_end_behind_it() {
    let mut bench = Bench::new();
    let conditions = Conditions { latency_us: (100, 50_000), ..Conditions::GOOD };
    let (mut caller, mut callee) = bench.connected();
    bench.network.set_conditions(ONE, TWO, conditions);
    let writing = bench.spawn(async move {
        for number in 0..200_u32 {
            caller.write_all(&number.to_be_bytes()).await.unwrap();
        }
        caller.shutdown().await.unwrap();
    });
    let reading = bench.spawn(async move {
        let mut all = Vec::new();
        callee.read_to_end(&mut all).await.unwrap();
        all
    });
    bench.go(200);
    bench.result(writing);
    let expected: Vec<u8> = (0..200_u32).flat_map(u32::to_be_bytes).collect();
    assert_eq!(bench.result(reading), expected);
    bench.go(100);
    assert_eq!(bench.network.load(), (0, 0), "nothing of it is kept");
}

#[test]
fn a_connect_that_arrives_twice_is_two_connections_with_the_same_opening() {
    // The second piece has a request behind the handshake.
    for first in [&b"\0\0\0\x01x"[..], b"\0\0\0\x01x behind it"] {
        arrives_twice(first);
    }
}

fn arrives_twice(first: &'static [u8]) {
    let mut bench = Bench::new();
    bench.network.set_twice(ONE, TWO, 1000);
    let there = bench.network.of(TWO);
    let accepting = bench.spawn(async move {
        let mut listener = there.listen(ADDRESS, 10).await.unwrap();
        let mut streams = [listener.accept().await.unwrap().0, listener.accept().await.unwrap().0];
        let mut ends = Vec::new();
        for stream in &mut streams {
            let mut piece = [0; 5];
            stream.read_exact(&mut piece).await.unwrap();
            stream.write_all(&piece).await.unwrap();
            let mut rest = Vec::new();
            let end = stream.read_to_end(&mut rest).await;
            ends.push((piece, rest, end.map_err(|error| error.kind())));
        }
        ends
    });
    let here = bench.network.of(ONE);
    let calling = bench.spawn(async move {
        let mut stream = Net::connect(&here, ADDRESS).await.unwrap();
        stream.write_all(first).await.unwrap();
        stream.write_all(b" next").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.map(|_| all)
    });
    bench.go(6000);
    let ends = bench.result(accepting);
    let opening = *b"\0\0\0\x01x";
    let rest = [&first[5..], b" next"].concat();
    assert_eq!(ends[0], (opening, rest.clone(), Ok(rest.len())));
    let reset = Err(std::io::ErrorKind::ConnectionReset);
    assert_eq!(ends[1], (opening, Vec::new(), reset), "the caller knows nothing of it");
    assert_eq!(bench.result(calling).unwrap(), opening);
    assert_eq!(bench.network.figures().twice, 1);
    bench.go(50);
    assert_eq!(bench.network.load(), (0, 0), "nothing of it is kept");
}

#[test]
fn a_cut_holds_what_is_sent_until_it_is_mended() {
    let mut bench = Bench::new();
    let (mut caller, mut callee) = bench.connected();
    bench.network.cut(ONE, TWO);
    let writing = bench.spawn(async move {
        caller.write_all(b"late").await.unwrap();
        let mut answer = [0; 2];
        caller.read_exact(&mut answer).await.unwrap();
        answer
    });
    let reading = bench.spawn(async move {
        // The other direction works.
        callee.write_all(b"ok").await.unwrap();
        let mut all = [0; 4];
        callee.read_exact(&mut all).await.unwrap();
        all
    });
    bench.go(500);
    assert_eq!(bench.result(writing), *b"ok");
    assert!(!reading.is_finished());
    bench.network.mend(ONE, TWO);
    bench.go(5);
    assert_eq!(bench.result(reading), *b"late");
}

#[test]
fn a_call_is_refused_or_is_repeated_until_it_is_given_up() {
    let mut bench = Bench::new();
    let call = |bench: &Bench| {
        let here = bench.network.of(ONE);
        bench.spawn(async move { Net::connect(&here, ADDRESS).await.unwrap_err().kind() })
    };
    let refused = call(&bench);
    bench.go(5);
    assert_eq!(bench.result(refused), std::io::ErrorKind::ConnectionRefused);
    bench.network.power_off(TWO);
    let unanswered = call(&bench);
    bench.go(5000);
    assert!(!unanswered.is_finished());
    bench.go(30_000);
    assert_eq!(bench.result(unanswered), std::io::ErrorKind::TimedOut);
}

/// One end of a connection whose other end has lost its power.
fn without_power(bench: &mut Bench) -> Box<dyn Stream> {
    let (caller, callee) = bench.connected();
    bench.network.power_off(TWO);
    drop(callee);
    caller
}

/// A caller who writes to a machine without power, and then reads: the error of it.
fn writes_to_what_has_no_power(bench: &mut Bench) -> JoinHandle<std::io::ErrorKind> {
    let mut caller = without_power(bench);
    bench.spawn(async move {
        caller.write_all(b"early").await.unwrap();
        caller.read_u8().await.unwrap_err().kind()
    })
}

#[test]
fn a_machine_that_lost_its_power_says_so_when_it_is_asked() {
    for writes in [true, false] {
        let mut bench = Bench::new();
        let mut caller = without_power(&mut bench);
        let (go_on, waits) = tokio::sync::oneshot::channel();
        let using = bench.spawn(async move {
            waits.await.unwrap();
            if writes {
                caller.write_all(b"answered").await.unwrap();
            } else {
                caller.shutdown().await.unwrap();
            }
            caller.read_u8().await.unwrap_err().kind()
        });
        bench.go(1000);
        bench.network.power_on(TWO);
        bench.go(1000);
        assert!(!using.is_finished(), "it knows nothing of it");
        go_on.send(()).unwrap();
        bench.go(5);
        assert_eq!(bench.result(using), std::io::ErrorKind::ConnectionReset, "writes: {writes}");
        bench.go(5);
        assert_eq!(bench.network.load(), (0, 0), "nothing of it is kept");
    }
}

#[test]
fn what_is_sent_to_a_machine_without_power_is_sent_again() {
    let mut bench = Bench::new();
    let mut caller = without_power(&mut bench);
    let using = bench.spawn(async move {
        caller.write_all(b"early").await.unwrap();
        // It waits behind what is sent again.
        tokio::task::yield_now().await;
        caller.write_all(b"later").await.unwrap();
        caller.read_u8().await.unwrap_err().kind()
    });
    // Sent again after 200, 600 and 1400 ms, and the time on the way.
    bench.go(1000);
    bench.network.power_on(TWO);
    bench.go(390);
    assert!(!using.is_finished());
    bench.go(30);
    assert_eq!(bench.result(using), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn what_is_sent_again_takes_the_way_of_everything() {
    let mut bench = Bench::new();
    let using = writes_to_what_has_no_power(&mut bench);
    bench.go(100);
    bench.network.power_on(TWO);
    bench.network.cut(ONE, TWO);
    bench.go(1000);
    assert!(!using.is_finished());
    bench.network.set_conditions(
        ONE,
        TWO,
        Conditions { latency_us: (300_000, 300_000), ..Conditions::GOOD },
    );
    bench.network.mend(ONE, TWO);
    bench.go(290);
    assert!(!using.is_finished());
    bench.go(15);
    assert_eq!(bench.result(using), std::io::ErrorKind::ConnectionReset);
    bench.go(5);
    assert_eq!(bench.network.load(), (0, 0), "nothing of it is kept");
}

/// The power of the machine that is back fails in place of its first piece, which is the reset.
#[test]
fn what_is_sent_again_has_an_answer_in_the_end() {
    let mut bench = Bench::new();
    let using = writes_to_what_has_no_power(&mut bench);
    bench.go(100);
    let power = Power::default();
    bench.network.set_power(TWO, Some(power.clone()));
    bench.network.fail_piece(TWO, Some(1));
    bench.network.power_on(TWO);
    bench.go(400);
    assert!(power.is_off() && !using.is_finished());
    bench.network.set_power(TWO, None);
    bench.go(400);
    assert_eq!(bench.result(using), std::io::ErrorKind::ConnectionReset);
    bench.go(1000);
    assert_eq!(bench.network.load(), (0, 0), "nothing of it is kept");
}

#[test]
fn an_end_that_meets_a_closed_end_leaves_nothing() {
    let mut bench = Bench::new();
    let (mut caller, callee) = bench.connected();
    drop(callee);
    let using = bench.spawn(async move {
        caller.shutdown().await.unwrap();
        tokio::task::yield_now().await;
        caller
    });
    bench.go(50);
    drop(bench.result(using));
    bench.go(50);
    assert_eq!(bench.network.load(), (0, 0), "nothing of it is kept");
}

#[test]
fn a_reset_breaks_both_ends() {
    let mut bench = Bench::new();
    let (mut caller, mut callee) = bench.connected();
    let reading = bench.spawn(async move { callee.read_u8().await.unwrap_err().kind() });
    bench.go(1);
    assert_eq!(bench.network.reset(ONE, TWO, 1000), 1);
    let writing = bench.spawn(async move { caller.write_all(b"x").await.unwrap_err().kind() });
    bench.go(1);
    assert_eq!(bench.result(reading), std::io::ErrorKind::ConnectionReset);
    assert_eq!(bench.result(writing), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn a_machine_whose_power_fails_at_a_piece_sends_those_before_it_alone() {
    let mut bench = Bench::new();
    let (one, mut two) = bench.connected();
    let power = Power::default();
    bench.network.set_power(ONE, Some(power.clone()));
    bench.network.fail_piece(ONE, Some(3));
    let sent = bench.spawn(async move {
        let mut one = one;
        for _ in 0..4 {
            one.write_all(b"piece").await.unwrap();
        }
        one
    });
    bench.go(50);
    assert!(power.is_off());
    let one = bench.result(sent);
    // The program has ended, and the system closes its connection.
    bench.network.set_power(ONE, None);
    drop(one);
    let read = bench.spawn(async move {
        let mut all = Vec::new();
        two.read_to_end(&mut all).await.map(|_| all)
    });
    bench.go(50);
    assert_eq!(bench.result(read).unwrap(), b"piecepiece");
}
