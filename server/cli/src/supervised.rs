//! What `zoolet up` and its servers say to each other: orders on a server's standard input, each a
//! line with a number, and answers on its standard output. What else is on the input is the reason
//! for which the server stops when the input ends.

use std::fmt;
use std::str::FromStr;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use zoolet_server::embed::{Role, Server};

use crate::output::Output;

/// The most that is kept of what a supervisor says about its reason to stop the server, and the longest
/// line.
const REASON_BYTES_MAX: usize = 256;

/// How a line with an order begins.
const ORDER: &str = "order ";

/// The answer to an order that was carried out.
pub(crate) const DONE: &str = "done";

/// The answers to an order that was not.
pub(crate) const NOT_LEADER: &str = "it does not lead";
const UNKNOWN_SESSION: &str = "unknown session";

/// What a supervisor can have a server do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Hold back everything from and to the other servers.
    CutPeers,
    /// Hold back everything from and to the clients.
    CutClients,
    /// End that.
    Heal,
    /// End this session as if its timeout were over.
    Expire(SessionNumber),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutPeers => f.write_str("cut-peers"),
            Self::CutClients => f.write_str("cut-clients"),
            Self::Heal => f.write_str("heal"),
            Self::Expire(session) => write!(f, "expire {session}"),
        }
    }
}

/// The number of a session, as clients show it: in hexadecimal with `0x`, or in decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionNumber(i64);

impl fmt::Display for SessionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl FromStr for SessionNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).map(u64::cast_signed),
            None => text.parse(),
        };
        number.map(Self).map_err(|_| format!("invalid session `{text}`: expected 0x… or a number"))
    }
}

/// An order, and the number that its answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) order: Order,
}

impl Numbered {
    /// Returns the line that carries it.
    pub(crate) fn to_line(self) -> String {
        format!("{ORDER}{} {}\n", self.number, self.order)
    }

    fn parse(line: &str) -> Option<Self> {
        let (number, order) = line.strip_prefix(ORDER)?.split_once(' ')?;
        let order = match order.split_once(' ') {
            None if order == "cut-peers" => Order::CutPeers,
            None if order == "cut-clients" => Order::CutClients,
            None if order == "heal" => Order::Heal,
            Some(("expire", session)) => Order::Expire(session.parse().ok()?),
            _ => return None,
        };
        Some(Self { number: number.parse().ok()?, order })
    }

    /// Does what it says, and writes the answer to standard output.
    pub(crate) fn carry_out(self, server: &Server, answers: &Output) {
        match self.order {
            Order::CutPeers => server.cut(),
            Order::CutClients => server.cut_clients(),
            Order::Heal => server.heal(),
            Order::Expire(SessionNumber(session)) => {
                if !server.expire_session(session) {
                    let leads = server.role() == Role::Leader;
                    return self.answer(if leads { UNKNOWN_SESSION } else { NOT_LEADER }, answers);
                }
            }
        }
        self.answer(DONE, answers);
    }

    fn answer(self, said: &str, answers: &Output) {
        // Without a supervisor no answer is needed, and the server ends soon.
        answers.put(format!("{} {said}\n", self.number).as_bytes());
    }
}

/// Returns what an answer says, if it is to the order with this number.
pub(crate) fn answer_to(number: u64, line: &str) -> Option<&str> {
    let (answered, said) = line.split_once(' ')?;
    (answered.parse() == Ok(number)).then_some(said)
}

/// Hands the orders on until the input ends or fails. Returns what else the supervisor has written
/// there, which is why it stops this server.
pub(crate) async fn input_ends(
    mut input: impl AsyncRead + Unpin,
    orders: mpsc::Sender<Numbered>,
) -> String {
    let (mut line, mut said) = (Vec::new(), Vec::new());
    let mut some = [0; 64];
    while let Ok(count @ 1..) = input.read(&mut some).await {
        for byte in some.iter().take(count) {
            if line.len() < REASON_BYTES_MAX {
                line.push(*byte);
            }
            if *byte == b'\n' {
                match Numbered::parse(String::from_utf8_lossy(&line).trim_end()) {
                    // The server ends without taking further orders.
                    Some(order) => drop(orders.send(order).await),
                    None => said.append(&mut line),
                }
                line.clear();
            }
        }
        said.truncate(REASON_BYTES_MAX);
    }
    said.append(&mut line);
    said.truncate(REASON_BYTES_MAX);
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    if said.is_empty() { "the supervisor is gone".to_owned() } else { said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn orders_are_handed_on_and_the_rest_is_the_reason() {
        let all = [
            Order::CutPeers,
            Order::CutClients,
            Order::Heal,
            Order::Expire(SessionNumber(-3)),
            Order::Expire(SessionNumber(i64::MAX)),
        ];
        let numbered = all.into_iter().zip(1..);
        let numbered: Vec<_> = numbered.map(|(order, number)| Numbered { number, order }).collect();
        let mut text: String = numbered.iter().map(|order| order.to_line()).collect();
        text.push_str("order 9 unknown\nzoolet up: SIGTERM");
        let (orders, mut given) = mpsc::channel(9);
        let reason = input_ends(text.as_bytes(), orders).await;
        assert_eq!(reason, "order 9 unknown\nzoolet up: SIGTERM");
        for order in numbered {
            assert_eq!(given.recv().await, Some(order));
        }
        assert_eq!(given.recv().await, None);
        let (orders, _) = mpsc::channel(1);
        let long = "x".repeat(5000);
        assert_eq!(input_ends(long.as_bytes(), orders.clone()).await.len(), REASON_BYTES_MAX);
        assert_eq!(input_ends(&b""[..], orders).await, "the supervisor is gone");
    }

    #[test]
    fn a_session_is_written_as_clients_show_it() {
        for (text, number) in [("0x10", 16), ("16", 16), ("-1", -1), ("0xffffffffffffffff", -1)] {
            assert_eq!(text.parse(), Ok(SessionNumber(number)), "{text}");
        }
        for text in ["", "0x", "ten", "0x1ffffffffffffffff"] {
            assert!(text.parse::<SessionNumber>().is_err(), "{text}");
        }
        assert_eq!((answer_to(3, "3 done"), answer_to(3, "2 done")), (Some("done"), None));
    }
}
