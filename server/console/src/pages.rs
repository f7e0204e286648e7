//! The files of the pages, which are compiled in.

use hyper::header::HeaderValue;

use crate::answer::Answer;

/// The page that the prefix alone leads to.
pub(crate) const FIRST: HeaderValue = HeaderValue::from_static("/console/ensemble");

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// The one document of all pages; which page it is, its path says.
const DOCUMENT: &[u8] = include_bytes!("../pages/index.html");

macro_rules! files {
    ($($name:literal: $kind:expr,)*) => {
        /// The files below `/console/files/`.
        const FILES: &[(&str, &str, &[u8])] =
            &[$(($name, $kind, include_bytes!(concat!("../pages/", $name))),)*];
    };
}

files! {
    "console.css": CSS,
    "icon.svg": SVG,
    "main.js": JS,
    "api.js": JS,
    "dom.js": JS,
    "text.js": JS,
    "ensemble.js": JS,
    "tree.js": JS,
    "znode.js": JS,
    "edit.js": JS,
    "sessions.js": JS,
    "locks.js": JS,
    "pictures.js": JS,
    "history.js": JS,
    "login.js": JS,
}

/// The paths of the pages.
const PAGES: [&str; 5] = ["ensemble", "tree", "sessions", "locks", "history"];

/// Finds what a path stands for, byte for byte.
pub(crate) fn find(path: &str) -> Option<Answer> {
    let name = path.strip_prefix("/console/")?;
    if name.is_empty() || PAGES.contains(&name) {
        return Some(Answer::file(HTML, DOCUMENT));
    }
    let name = name.strip_prefix("files/")?;
    let (_, kind, bytes) = FILES.iter().find(|(file, _, _)| *file == name)?;
    Some(Answer::file(kind, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_from_another_host_and_no_script_is_in_a_page() {
        for (name, _, bytes) in FILES.iter().chain([&("index.html", HTML, DOCUMENT)]) {
            let text = str::from_utf8(bytes).unwrap();
            let namespace = "http://www.w3.org/2000/svg";
            let text = text.replace(namespace, "");
            for remote in ["http://", "https://", "//cdn", "innerHTML", "outerHTML", "eval("] {
                assert!(!text.contains(remote), "{name} contains {remote}");
            }
        }
        let document = str::from_utf8(DOCUMENT).unwrap();
        for inline in ["style=", "onclick", "onload", "<style"] {
            assert!(!document.contains(inline), "{inline}");
        }
        assert!(find("/console/tree").is_some() && find("/console/files/main.js").is_some());
        for unknown in ["/console/files/", "/console/files/../lib.rs", "/console/x", "/tree"] {
            assert!(find(unknown).is_none(), "{unknown}");
        }
    }
}
