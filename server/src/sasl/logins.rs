//! What a server does about logins: for all connections.

use std::sync::Arc;

use zoolet_jute::{ErrorCode, Id};
use zoolet_replica::SaslStep;

use super::{Answer, Login, LoginError, Users};
use crate::entropy::Entropy;

/// Who can log in, and as whom.
#[derive(Clone, Debug)]
pub(crate) struct Logins {
    /// The users and their passwords.
    pub users: Users,
    /// Those that may do everything.
    pub super_users: Vec<String>,
    /// What becomes of a login that fails.
    pub on_failure: OnFailure,
    /// Where the nonces come from.
    pub entropy: Arc<dyn Entropy>,
}

/// What becomes of a login that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// The client is served without an identity.
    Serve,
    /// Its connection is closed with this error.
    Close(ErrorCode),
}

/// What is to be logged of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The login goes on.
    Pending,
    /// It is done, and this is the user.
    LoggedIn(String),
    /// It has failed.
    Failed(LoginError),
}

impl Logins {
    /// Takes a client's token of a login on one connection.
    pub(crate) fn take(&self, login: &mut Login, token: Option<&[u8]>) -> (SaslStep, Outcome) {
        // A null token leaves the login where it is; Apache ZooKeeper closes the connection.
        let Some(token) = token else { return (SaslStep::Token(None), Outcome::Pending) };
        match login.take(token, &self.users, || self.nonce()) {
            Ok(Answer::Challenge(token)) => (SaslStep::Token(Some(token)), Outcome::Pending),
            Ok(Answer::LoggedIn { token, user }) => {
                let proved = self.identities(&user);
                (SaslStep::LoggedIn { token, proved }, Outcome::LoggedIn(user))
            }
            Err(error) => {
                let step = match self.on_failure {
                    OnFailure::Serve => SaslStep::Token(None),
                    OnFailure::Close(code) => SaslStep::Refused(code),
                };
                (step, Outcome::Failed(error))
            }
        }
    }

    fn identities(&self, user: &str) -> Vec<Id> {
        let is_super = self.super_users.iter().any(|name| name == user);
        let superuser = is_super.then(|| Id::new("super", ""));
        [Id::new("sasl", user)].into_iter().chain(superuser).collect()
    }

    /// Returns 128 random bits in hexadecimal: no other login has the same.
    fn nonce(&self) -> String {
        format!("{:016x}{:016x}", self.entropy.number(), self.entropy.number())
    }
}
