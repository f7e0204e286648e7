//! Logins by SASL: what the tokens of a connection lead to.

use std::net::SocketAddr;

use tracing::{debug, info, warn};
use zoolet_jute::{Request, SessionId};

use super::context::PortContext;
use crate::host::Received;
use crate::sasl::{Login, Outcome};

impl PortContext {
    /// Looks at a token of a login, if the request is one; what it leads to goes to the host.
    pub(super) fn log_in(
        &self,
        login: &mut Login,
        received: &mut Received,
        (peer, session): (SocketAddr, SessionId),
    ) {
        let (Some(logins), Ok(Request::Sasl(token))) = (&self.options.logins, &received.request)
        else {
            return;
        };
        let (step, outcome) = logins.take(login, token.as_deref());
        received.sasl = Some(step);
        match outcome {
            Outcome::Pending => {}
            Outcome::LoggedIn(user) => info!(%peer, %session, user, "logged in by SASL"),
            Outcome::Failed(error) if self.may_warn("login") => warn!(
                %peer,
                %session,
                %error,
                "login by SASL failed; others like it may not be logged for 10 s"
            ),
            Outcome::Failed(error) => debug!(%peer, %session, %error, "login by SASL failed"),
        }
    }
}
