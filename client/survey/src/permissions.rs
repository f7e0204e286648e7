//! How the permissions of an ACL are written.

use zoolet_client::perms;

/// The letters, in the order in which `ZooKeeper` writes them.
const LETTERS: [(char, i32); 5] = [
    ('c', perms::CREATE),
    ('d', perms::DELETE),
    ('r', perms::READ),
    ('w', perms::WRITE),
    ('a', perms::ADMIN),
];

/// Returns the letters of permissions.
pub fn letters(permissions: i32) -> String {
    LETTERS.iter().filter(|(_, bit)| permissions & bit != 0).map(|(letter, _)| letter).collect()
}

/// Reads letters; `None` if another one is among them.
pub fn parse(letters: &str) -> Option<i32> {
    let bit = |letter: char| LETTERS.iter().find(|(of, _)| *of == letter).map(|(_, bit)| bit);
    letters.chars().try_fold(0, |all, letter| Some(all | bit(letter)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_zkcli_s_letters() {
        assert_eq!(letters(perms::ALL), "cdrwa");
        assert_eq!((letters(perms::READ), letters(0)), ("r".to_owned(), String::new()));
        assert_eq!((parse("cdrwa"), parse("r")), (Some(perms::ALL), Some(perms::READ)));
        assert_eq!((parse(""), parse("rx")), (Some(0), None));
    }
}
