//! How other clients write the items of their queues.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes};

use super::name::Sequence;

/// The first four bytes of an item of Curator's `DistributedQueue`.
const CURATOR_VERSION: i32 = 0x0001_0001;
/// The byte in front of a part.
const CURATOR_PART: u8 = 1;
/// The byte behind the last part.
const CURATOR_END: u8 = 2;

/// The priority of kazoo's items that are put without one.
const KAZOO_PRIORITY: i32 = 100;
/// The largest priority that kazoo's three digits hold.
const KAZOO_PRIORITY_MAX: i32 = 999;

/// Whose queue it is: what the names and the data of its items look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueFormat {
    /// `qn-N`, the data as it is: Curator's `SimpleDistributedQueue`, the Java recipe. There are
    /// no priorities.
    Simple,
    /// `queue-N`, the data framed: Curator's `DistributedQueue`, and its priority queue when every
    /// item is put with a priority. Delayed items and items with an id are left to Curator. A znode
    /// whose data is not framed so is passed over and stays; Curator deletes it.
    Distributed,
    /// `entry-100-N`, the data as it is: kazoo's `Queue`. Priorities go from 0 to 999.
    Kazoo,
}

/// An item's znode and its place in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) name: String,
    /// What comes between the base and the number; sorts before it.
    pub(crate) group: String,
    pub(crate) number: Sequence,
}

impl QueueFormat {
    const fn base(self) -> &'static str {
        match self {
            Self::Simple => "qn-",
            Self::Distributed => "queue-",
            Self::Kazoo => "entry-",
        }
    }

    /// Whether a new item can come in front of others.
    pub(crate) const fn has_priorities(self) -> bool {
        match self {
            Self::Simple => false,
            Self::Distributed | Self::Kazoo => true,
        }
    }

    /// The name of a new item, without the number; `None` for a priority that it cannot have.
    pub(crate) fn name(self, priority: Option<i32>) -> Option<String> {
        let base = self.base();
        match (self, priority) {
            (Self::Simple | Self::Distributed, None) => Some(base.to_owned()),
            (Self::Simple, Some(_)) => None,
            (Self::Distributed, Some(priority)) => {
                Some(format!("{base}{}{priority:08X}", i32::from(priority >= 0)))
            }
            (Self::Kazoo, priority) => {
                let priority = priority.unwrap_or(KAZOO_PRIORITY);
                let fits = (0..=KAZOO_PRIORITY_MAX).contains(&priority);
                fits.then(|| format!("{base}{priority:03}-"))
            }
        }
    }

    /// Where an item of this name stands: its group and its number. `None` for other names.
    pub(crate) fn order(self, name: &str) -> Option<(&str, Sequence)> {
        let rest = name.strip_prefix(self.base())?;
        // Ten digits, with a sign in front after the wrap: then it is the last minus.
        let digits = rest.len().checked_sub(10)?;
        let at = match rest.get(..digits)?.strip_suffix('-') {
            Some(group) if self != Self::Kazoo || group.ends_with('-') => group.len(),
            _ => digits,
        };
        let (group, number) = rest.split_at_checked(at)?;
        let known = match self {
            Self::Simple => group.is_empty(),
            Self::Distributed => !group.starts_with('|'),
            Self::Kazoo => true,
        };
        Some((group, Sequence::parse(number)?)).filter(|_| known)
    }

    pub(crate) fn order_owned(self, name: String) -> Option<Item> {
        let (group, number) = self.order(&name)?;
        Some(Item { group: group.to_owned(), number, name })
    }

    /// The data of an item.
    pub(crate) fn encode(self, item: &[u8]) -> Vec<u8> {
        match self {
            Self::Simple | Self::Kazoo => item.to_vec(),
            Self::Distributed => {
                let mut data = Vec::with_capacity(item.len() + 10);
                data.put_i32(CURATOR_VERSION);
                data.put_u8(CURATOR_PART);
                data.put_i32(i32::try_from(item.len()).unwrap_or(i32::MAX));
                data.put_slice(item);
                data.put_u8(CURATOR_END);
                data
            }
        }
    }

    /// The items of a znode: one, or as many as Curator put into it. `None` for data that is none.
    pub(crate) fn decode(self, data: Bytes) -> Option<VecDeque<Bytes>> {
        match self {
            Self::Simple | Self::Kazoo => Some(VecDeque::from([data])),
            Self::Distributed => decode_curator(data),
        }
    }
}

fn decode_curator(mut data: Bytes) -> Option<VecDeque<Bytes>> {
    if data.try_get_i32().ok()? != CURATOR_VERSION {
        return None;
    }
    let mut items = VecDeque::new();
    loop {
        match data.try_get_u8().ok()? {
            CURATOR_END => return Some(items),
            CURATOR_PART => {
                let length = usize::try_from(data.try_get_i32().ok()?).ok()?;
                if length > data.len() {
                    return None;
                }
                items.push_back(data.split_to(length));
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_others() {
        assert_eq!(QueueFormat::Simple.name(None).unwrap(), "qn-");
        assert_eq!(QueueFormat::Simple.name(Some(1)), None);
        assert_eq!(QueueFormat::Distributed.name(None).unwrap(), "queue-");
        // As DistributedPriorityQueue.priorityToString has it.
        assert_eq!(QueueFormat::Distributed.name(Some(5)).unwrap(), "queue-100000005");
        assert_eq!(QueueFormat::Distributed.name(Some(-1)).unwrap(), "queue-0FFFFFFFF");
        assert_eq!(QueueFormat::Kazoo.name(None).unwrap(), "entry-100-");
        assert_eq!(QueueFormat::Kazoo.name(Some(7)).unwrap(), "entry-007-");
        assert_eq!(QueueFormat::Kazoo.name(Some(1000)), None);
    }

    #[test]
    fn items_are_ordered_by_priority_and_number() {
        let number = |number: &str| Sequence::parse(number).unwrap();
        let order = QueueFormat::order;
        assert_eq!(order(QueueFormat::Simple, "qn-0000000007"), Some(("", number("7"))));
        let wrapped = Some(("", number("-2147483648")));
        assert_eq!(order(QueueFormat::Simple, "qn--2147483648"), wrapped);
        let prioritized = Some(("100000005", number("12")));
        assert_eq!(order(QueueFormat::Distributed, "queue-1000000050000000012"), prioritized);
        assert_eq!(order(QueueFormat::Distributed, "queue-|abc|0000000012"), None);
        let kazoo = Some(("100-", number("3")));
        assert_eq!(order(QueueFormat::Kazoo, "entry-100-0000000003"), kazoo);
        let kazoo = Some(("100-", number("-2147483648")));
        assert_eq!(order(QueueFormat::Kazoo, "entry-100--2147483648"), kazoo);
        for foreign in ["qn-1", "other-0000000001", "qn-abcdefghij", "qn-x0000000001", ""] {
            assert_eq!(order(QueueFormat::Simple, foreign), None, "{foreign}");
        }
    }

    #[test]
    fn curator_s_items_are_read_and_written() {
        let data = QueueFormat::Distributed.encode(b"abc");
        assert_eq!(data, [0, 1, 0, 1, 1, 0, 0, 0, 3, b'a', b'b', b'c', 2]);
        let two = [0, 1, 0, 1, 1, 0, 0, 0, 1, b'a', 1, 0, 0, 0, 0, 2];
        let items = decode_curator(Bytes::copy_from_slice(&two)).unwrap();
        assert_eq!(items, [Bytes::from_static(b"a"), Bytes::new()]);
        for cut in 0..data.len() {
            assert_eq!(decode_curator(Bytes::copy_from_slice(&data[..cut])), None, "{cut}");
        }
        assert_eq!(decode_curator(Bytes::from_static(&[0, 1, 0, 1, 1, 255, 0, 0, 0, 2])), None);
    }
}
