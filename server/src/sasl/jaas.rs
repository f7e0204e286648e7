//! The configuration files of Java's authentication service, as far as they name users.
//!
//! ```text
//! Server {
//!     org.apache.zookeeper.server.auth.DigestLoginModule required
//!     user_bob="builder";
//! };
//! ```

use thiserror::Error;
use zoolet_tls::Password;

use super::Users;

/// The login module whose options are users.
const DIGEST_MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";

/// What the options that name users begin with.
const USER: &str = "user_";

/// What is wrong with a file.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{why}")]
pub(crate) struct JaasError {
    /// The line, from 1.
    pub(crate) line: usize,
    /// What is wrong there.
    pub(crate) why: String,
}

/// Adds the users that a section of a file names.
pub(crate) fn users_of_section(
    text: &str,
    section: &str,
    users: &mut Users,
) -> Result<(), JaasError> {
    let mut reader = Reader { text, line: 1 };
    let mut found_in = None;
    while let Some(name) = reader.name_or_end()? {
        let line = reader.line;
        let is_wanted = name == section;
        if is_wanted && let Some(earlier) = found_in.replace(line) {
            let why = format!("section {section} is also in line {earlier}");
            return Err(JaasError { line, why });
        }
        reader.expect('{')?;
        while !reader.skip('}')? {
            let module = reader.module()?;
            if is_wanted {
                module.add_users(users)?;
            }
        }
        reader.expect(';')?;
    }
    if found_in.is_none() {
        let why = format!("section {section} is missing: it names the users that can log in");
        return Err(JaasError { line: 0, why });
    }
    Ok(())
}

/// One login module of a section.
struct Module {
    line: usize,
    class: String,
    /// The name, the value and the line of each option.
    options: Vec<(String, String, usize)>,
}

impl Module {
    fn add_users(&self, users: &mut Users) -> Result<(), JaasError> {
        if self.class.ends_with("Krb5LoginModule") {
            let why = format!(
                "Kerberos ({}) is not supported: expected {DIGEST_MODULE} with \
                 user_NAME=\"PASSWORD\"",
                self.class
            );
            return Err(JaasError { line: self.line, why });
        }
        if self.class != DIGEST_MODULE {
            let why = format!("unknown login module {}: expected {DIGEST_MODULE}", self.class);
            return Err(JaasError { line: self.line, why });
        }
        for (name, value, line) in &self.options {
            let Some(user) = name.strip_prefix(USER) else { continue };
            let added = users.add(user, Password::new(value.as_str()));
            added.map_err(|error| JaasError { line: *line, why: error.to_string() })?;
        }
        Ok(())
    }
}

/// The rest of a file.
struct Reader<'a> {
    text: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn error<T>(&self, why: impl Into<String>) -> Result<T, JaasError> {
        Err(JaasError { line: self.line, why: why.into() })
    }

    fn next(&mut self) -> Option<char> {
        let mut letters = self.text.chars();
        let letter = letters.next()?;
        self.text = letters.as_str();
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) -> Result<(), JaasError> {
        loop {
            if self.text.starts_with("//") {
                while self.next().is_some_and(|letter| letter != '\n') {}
            } else if self.text.starts_with("/*") {
                let begun = self.line;
                while !self.text.starts_with("*/") {
                    if self.next().is_none() {
                        return Err(JaasError {
                            line: begun,
                            why: "a comment does not end".into(),
                        });
                    }
                }
                self.next();
                self.next();
            } else if self.text.starts_with(char::is_whitespace) {
                self.next();
            } else {
                return Ok(());
            }
        }
    }

    fn skip(&mut self, mark: char) -> Result<bool, JaasError> {
        self.skip_blanks()?;
        let is_there = self.text.starts_with(mark);
        if is_there {
            self.next();
        }
        Ok(is_there)
    }

    fn expect(&mut self, mark: char) -> Result<(), JaasError> {
        if self.skip(mark)? { Ok(()) } else { self.error(format!("expected `{mark}`")) }
    }

    fn name_or_end(&mut self) -> Result<Option<String>, JaasError> {
        self.skip_blanks()?;
        if self.text.is_empty() { Ok(None) } else { self.word("the name of a section").map(Some) }
    }

    fn module(&mut self) -> Result<Module, JaasError> {
        let class = self.word("a login module or `}`")?;
        let line = self.line;
        let flag = self.word("required, requisite, sufficient or optional")?;
        let flags = ["required", "requisite", "sufficient", "optional"];
        if !flags.iter().any(|known| known.eq_ignore_ascii_case(&flag)) {
            return self.error(format!("{flag:?}: expected {}", flags.join(", ")));
        }
        let mut options = Vec::new();
        while !self.skip(';')? {
            let name = self.word("an option or `;`")?;
            let line = self.line;
            self.expect('=')?;
            let value = self.word("a value")?;
            if value.contains("${") {
                return self.error(format!("{name}: system properties are not expanded"));
            }
            options.push((name, value, line));
        }
        Ok(Module { line, class, options })
    }

    /// Reads a word, or a text in quotes.
    fn word(&mut self, what: &str) -> Result<String, JaasError> {
        self.skip_blanks()?;
        if self.text.starts_with('"') {
            return self.quoted();
        }
        let is_part = |letter: char| letter.is_alphanumeric() || "$_-*.".contains(letter);
        let end = self.text.find(|letter| !is_part(letter)).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        if word.is_empty() {
            return self.error(format!("expected {what}"));
        }
        self.text = rest;
        Ok(word.to_owned())
    }

    fn quoted(&mut self) -> Result<String, JaasError> {
        let (mut value, line) = (String::new(), self.line);
        self.next();
        loop {
            match self.next() {
                Some('"') => return Ok(value),
                Some('\\') => match self.next() {
                    Some(letter @ '0'..='7') => value.push(self.octal(letter)),
                    Some('n') => value.push('\n'),
                    Some('r') => value.push('\r'),
                    Some('t') => value.push('\t'),
                    Some('\n') | None => break,
                    Some(letter) => value.push(letter),
                },
                Some('\n') | None => break,
                Some(letter) => value.push(letter),
            }
        }
        Err(JaasError { line, why: "a text in quotes does not end in its line".to_owned() })
    }

    /// Reads the rest of an escape of up to three octal digits.
    fn octal(&mut self, first: char) -> char {
        let mut code = first.to_digit(8).unwrap_or(0);
        let digits_max = if code <= 3 { 2 } else { 1 };
        for _ in 0..digits_max {
            let Some(digit) = self.text.chars().next().and_then(|letter| letter.to_digit(8)) else {
                break;
            };
            code = code * 8 + digit;
            self.next();
        }
        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"// Who may log in.
Client { org.apache.zookeeper.server.auth.DigestLoginModule required
  username="x" password="y"; };
/* servers
   and clients */
Server {
   org.apache.zookeeper.server.auth.DigestLoginModule REQUIRED
   user_super="adm\"in\\" user_bob=builder1
   "user_eve@R"="\101\n"
   debug=true;
};
Kerberos { com.sun.security.auth.module.Krb5LoginModule optional; };
"#;

    fn read(text: &str, section: &str) -> Result<Users, JaasError> {
        let mut users = Users::default();
        users_of_section(text, section, &mut users)?;
        Ok(users)
    }

    #[test]
    fn the_users_of_one_section_are_read() {
        let users = read(FILE, "Server").unwrap();
        assert_eq!(users.len(), 3);
        assert_eq!(users.password("super"), Some("adm\"in\\"));
        assert_eq!(users.password("bob"), Some("builder1"));
        assert_eq!(users.password("eve@R"), Some("A\n"));
        assert_eq!(read(FILE, "Client").unwrap().len(), 0);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let kerberos = read(FILE, "Kerberos").unwrap_err();
        assert_eq!(kerberos.line, 12);
        assert!(kerberos.why.starts_with("Kerberos (com.sun"), "{kerberos}");
        assert!(read(FILE, "Other").unwrap_err().why.contains("section Other is missing"));
        let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
        for (text, line, why) in [
            ("Server", 1, "expected `{`"),
            ("Server {\n a.B required;\n};", 2, "unknown login module a.B"),
            ("Server {\n a.B wanted;\n};", 2, "expected required"),
            ("Server {\n a.B required user_a;\n};", 2, "expected `=`"),
            ("Server {\n a.B required user_a=;\n};", 2, "expected a value"),
            ("Server {\n\n a.B required user_a=\"b\n\"; };", 3, "does not end in its line"),
            ("Server { a.B required user_a=\"${b}\"; };", 1, "not expanded"),
            ("/* a\n b", 1, "a comment does not end"),
            ("Server {\n}\n", 3, "expected `;`"),
            ("Server {}; Server {};", 1, "also in line 1"),
            ("'Server' {};", 1, "expected the name of a section"),
            (&format!("Server {{ {module} required\nuser_=x; }};"), 2, "invalid name"),
            (&format!("Server {{ {module} required user_a=x\nuser_a=y; }};"), 2, "twice"),
        ] {
            let error = read(text, "Server").unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.why.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn changed_files_never_panic() {
        for at in 0..FILE.len() {
            let _ = read(&FILE[..at], "Server");
            for change in [b'"', b'{', b';', b'\\', b'\n', b'/', b'*', b' '] {
                let mut changed = FILE.as_bytes().to_vec();
                changed[at] = change;
                let _ = read(&String::from_utf8(changed).unwrap(), "Server");
            }
        }
    }
}
