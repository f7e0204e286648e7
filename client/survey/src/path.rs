//! Paths of znodes.

/// Returns the path of a child.
pub fn join(parent: &str, name: &str) -> String {
    if parent == "/" { format!("/{name}") } else { format!("{parent}/{name}") }
}
