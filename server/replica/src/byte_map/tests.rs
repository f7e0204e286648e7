use std::collections::BTreeMap;

use super::*;

fn check(map: &ByteMap<u32>, expected: &BTreeMap<Vec<u8>, u32>) {
    let found: Vec<_> = map.iter().map(|(key, value)| (key.to_vec(), *value)).collect();
    let wanted: Vec<_> = expected.iter().map(|(key, value)| (key.clone(), *value)).collect();
    assert_eq!(found, wanted);
    assert_eq!((map.len(), map.is_empty()), (expected.len(), expected.is_empty()));
    assert_eq!(map.key_bytes(), expected.keys().map(Vec::len).sum::<usize>());
    let leaves: Vec<_> = (0..).map_while(|number| map.leaf(number)).collect();
    assert!(leaves.iter().all(|leaf| (1..=LEAF_KEYS_MAX).contains(&leaf.len())));
}

#[test]
fn it_is_a_sorted_map_whatever_comes_and_goes() {
    let (mut map, mut expected) = (ByteMap::default(), BTreeMap::new());
    let mut seed = 7_u32;
    for round in 0..30_000_u32 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let number = (seed >> 8) % 3000;
        // Some keys are long, and one is empty.
        let long = if number % 500 == 3 { LEAF_BYTES_MAX } else { 0 };
        let key = format!("n{number}{}", "x".repeat(long)).into_bytes();
        let key = if number == 9 { Vec::new() } else { key };
        // It grows at first and shrinks in the end.
        if seed >> 28 < 11 - round / 3000 {
            let is_new = map.insert(&key, round);
            assert_eq!(is_new, !expected.contains_key(&key));
            expected.entry(key).or_insert(round);
        } else {
            assert_eq!(map.remove(&key), expected.remove(&key));
        }
        if round % 1000 == 0 {
            check(&map, &expected);
            assert!(expected.iter().all(|(key, value)| map.get(key) == Some(value)));
            assert_eq!(map.get(b"n"), None);
        }
    }
    check(&map, &expected);
}

#[test]
fn a_copy_stays_as_it_was() {
    let mut map = ByteMap::default();
    let key = |number: u32| format!("{number:04}").into_bytes();
    for number in 0..1000 {
        map.insert(&key(number), number);
    }
    let copy = map.clone();
    for number in 0..500 {
        map.remove(&key(number));
        map.insert(&key(number + 1000), number);
    }
    assert_eq!((map.len(), map.get(b"0499"), map.get(b"1499")), (1000, None, Some(&499)));
    assert_eq!(copy.iter().count(), 1000);
    assert!((0..1000).all(|number| copy.get(&key(number)) == Some(&number)));
}

#[test]
fn keys_that_rise_fill_their_leaves() {
    let mut map = ByteMap::default();
    for number in 0..1280_u32 {
        map.insert(&number.to_be_bytes(), ());
    }
    assert_eq!(map.into_leaves().map(|leaf| leaf.len()).collect::<Vec<_>>(), [LEAF_KEYS_MAX; 10]);
}
