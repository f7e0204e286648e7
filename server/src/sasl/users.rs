//! The users that can log in, and their passwords.

use std::collections::BTreeMap;

use thiserror::Error;
use zoolet_replica::state::is_principal;
use zoolet_tls::Password;

/// The name of the user that has what any other user was granted.
const SUPER: &str = "super";

/// The users that can log in. Their passwords are never shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Users(BTreeMap<String, Password>);

/// Why a user cannot be added.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum UsersError {
    /// It is there already.
    #[error("user {0} is there twice")]
    Twice(String),
    /// No ACL could name it.
    #[error(
        "invalid name of a user {0:?}: expected one without @, or name@realm or name/host@realm"
    )]
    Name(String),
}

impl Users {
    /// Adds a user.
    pub(crate) fn add(&mut self, name: &str, password: Password) -> Result<(), UsersError> {
        if name.is_empty() || !is_principal(name) {
            return Err(UsersError::Name(name.to_owned()));
        }
        if self.0.insert(name.to_owned(), password).is_some() {
            return Err(UsersError::Twice(name.to_owned()));
        }
        Ok(())
    }

    /// Reads lines of `name:password`; the error has its line.
    pub(crate) fn add_lines(&mut self, text: &str) -> Result<(), (usize, String)> {
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((name, password)) = line.split_once(':') else {
                return Err((number, "expected name:password".to_owned()));
            };
            self.add(name, Password::new(password)).map_err(|error| (number, error.to_string()))?;
        }
        Ok(())
    }

    /// Gives the user `super`, if there is one, another password; false if there is none.
    pub(crate) fn set_super_password(&mut self, password: &Password) -> bool {
        self.0.get_mut(SUPER).map(|old| old.clone_from(password)).is_some()
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the password of a user.
    pub(super) fn password(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(Password::text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_names_and_passwords() {
        let mut users = Users::default();
        users.add_lines("# people\n\nbob:se:cret \nzoé:ü\n").unwrap();
        assert_eq!(users.password("bob"), Some("se:cret "));
        assert_eq!(users.password("zoé"), Some("ü"));
        assert_eq!(users.len(), 2);
        assert!(!users.set_super_password(&Password::new("x")));
        assert!(!format!("{users:?}").contains("cret"), "{users:?}");
        for (text, line, why) in [
            ("a:b\nbob", 2, "expected name:password"),
            (":b", 1, "invalid name"),
            ("a@b@c:d", 1, "invalid name"),
            ("a:b\n\na:c", 3, "user a is there twice"),
        ] {
            let error = Users::default().add_lines(text).unwrap_err();
            assert_eq!(error.0, line, "{text}");
            assert!(error.1.contains(why), "{text}: {}", error.1);
        }
    }
}
