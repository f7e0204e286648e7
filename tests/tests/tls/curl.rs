//! curl, which is as strict about certificates as browsers are.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::authority::Authority;

/// What curl got.
#[derive(Debug)]
pub(crate) struct Reply {
    /// 0 if there was no answer.
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    pub(crate) errors: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// What the answer says is wrong.
    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }
}

/// A user of curl, who may have a certificate and keeps cookies.
pub(crate) struct User<'a> {
    /// Whom the user trusts.
    pub(crate) trusted: &'a Authority,
    /// Who has issued the user's certificate, and its name.
    pub(crate) certificate: Option<(&'a Authority, &'a str)>,
    pub(crate) cookies: String,
    /// `https://host:port`.
    pub(crate) url: String,
}

impl<'a> User<'a> {
    pub(crate) fn new(
        trusted: &'a Authority,
        certificate: Option<(&'a Authority, &'a str)>,
        port: u16,
    ) -> Self {
        let name = certificate.map_or("without", |(_, name)| name);
        let cookies = trusted.text(&format!("{name}.cookies"));
        Self { trusted, certificate, cookies, url: format!("https://localhost:{port}") }
    }

    /// Sends a request with further words for curl.
    pub(crate) fn ask(&self, path: &str, words: &[&str]) -> Reply {
        let mut command = Command::new("curl");
        command.args(["-q", "-sS", "-i", "--noproxy", "*", "--max-time", "30"]);
        command.args(["--cacert", &self.trusted.text("ca.pem")]);
        command.args(["-b", &self.cookies, "-c", &self.cookies]);
        if let Some((issuer, name)) = self.certificate {
            command.args(["--cert", &issuer.text(&format!("{name}.crt"))]);
            command.args(["--key", &issuer.text(&format!("{name}.key"))]);
        }
        let output = command.args(words).arg(format!("{}{path}", self.url)).stdin(Stdio::null());
        let output = output.output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).replace("HTTP/1.1 100 Continue\r\n\r\n", "");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or(("", &text));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Reply { status, head: head.to_owned(), body: body.to_owned(), errors }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask(path, &[])
    }

    /// Sends what a page of the console would.
    pub(crate) fn post(&self, name: &str, body: &Value) -> Reply {
        let origin = format!("Origin: {}", self.url);
        self.post_with(name, body, &["-H", "X-Zoolet-Console: 1", "-H", &origin])
    }

    pub(crate) fn post_with(&self, name: &str, body: &Value, words: &[&str]) -> Reply {
        let body = body.to_string();
        let words = [&["-X", "POST", "-d", &body][..], words].concat();
        self.ask(&format!("/console/api/{name}"), &words)
    }
}
