//! Which file imports from which, and the circles of them.
//!
//! An import is a path in a `use` or in code that begins at `crate`, `self` or `super`, or at a
//! module beside it. A name that a file only passes on (`pub use`) counts as the file's that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};

use super::{root, rust_files};

/// The most files that may import from each other in a circle.
const CIRCLE_MAX: usize = 3;

/// A module's path in its crate.
type Module = Vec<String>;

/// What one file names of its crate.
#[derive(Debug, Default)]
struct FileImports {
    /// Paths as they stand there.
    named: BTreeSet<Module>,
    /// What its own `use` items call names: what it may pass on.
    aliases: BTreeMap<String, Module>,
}

impl FileImports {
    fn parse(code: &str) -> Self {
        let mut imports = Self::default();
        imports.visit_file(&syn::parse_file(code).unwrap());
        imports
    }

    fn add_tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) if name.ident == "self" => {
                self.add_alias(before.last().cloned().unwrap_or_default(), before.to_vec());
            }
            syn::UseTree::Name(name) => self.add_alias(name.ident.to_string(), with(&name.ident)),
            syn::UseTree::Rename(name) => {
                self.add_alias(name.rename.to_string(), with(&name.ident));
            }
            syn::UseTree::Glob(_) => drop(self.named.insert(before.to_vec())),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(before, tree);
                }
            }
        }
    }

    fn add_alias(&mut self, name: String, path: Module) {
        self.named.insert(path.clone());
        self.aliases.insert(name, path);
    }
}

/// Whether an item is compiled for tests alone.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|what| what == "test")
    })
}

impl<'ast> Visit<'ast> for FileImports {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.add_tree(&[], &item.tree);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.named.insert(path.segments.iter().map(|it| it.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

/// The files of a crate and what they name of each other.
#[derive(Debug)]
struct Crate {
    files: BTreeMap<Module, FileImports>,
}

impl Crate {
    /// Reads the sources below a directory, without tests.
    fn read(directory: &Path) -> Self {
        let mut files = BTreeMap::new();
        for path in rust_files(directory) {
            let mut module: Module = path
                .strip_prefix(directory)
                .unwrap()
                .with_extension("")
                .components()
                .map(|part| part.as_os_str().to_string_lossy().into_owned())
                .collect();
            if module.iter().any(|part| part.ends_with("tests") || part.starts_with("tests")) {
                continue;
            }
            if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
                module.pop();
            }
            files.insert(module, FileImports::parse(&fs::read_to_string(&path).unwrap()));
        }
        Self { files }
    }

    /// Returns the module whose file has what a path of this module names, if it is of this crate.
    fn target(&self, module: &[String], path: &[String], depth: usize) -> Option<Module> {
        let mut base = module.to_vec();
        let mut rest = path;
        let mut is_relative = true;
        while let Some((first, behind)) = rest.split_first() {
            match first.as_str() {
                "crate" => base.clear(),
                "self" => {}
                "super" => drop(base.pop()),
                _ => break,
            }
            is_relative = false;
            rest = behind;
        }
        while let Some((first, behind)) = rest.split_first() {
            base.push(first.clone());
            if !self.files.contains_key(&base) {
                base.pop();
                break;
            }
            is_relative = false;
            rest = behind;
        }
        if is_relative {
            return None;
        }
        let passed_on = rest.first().and_then(|name| self.files.get(&base)?.aliases.get(name));
        match passed_on {
            Some(from) if depth > 0 => self.target(&base, from, depth - 1).or(Some(base)),
            _ => self.files.contains_key(&base).then_some(base),
        }
    }

    fn imports(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let mut all = BTreeMap::new();
        for (module, imports) in &self.files {
            let targets = imports.named.iter().filter_map(|path| self.target(module, path, 8));
            // A part may use what the module that it is a part of defines.
            all.insert(module, targets.filter(|target| !module.starts_with(target)).collect());
        }
        all
    }

    /// Returns the largest sets of files of which each imports from each other one, if only by way
    /// of others of them; those of two files or more.
    fn circles(&self) -> Vec<BTreeSet<Module>> {
        let imports = self.imports();
        let reach = |from: &Module| {
            let mut seen = BTreeSet::new();
            let mut next = vec![from];
            while let Some(module) = next.pop() {
                for target in imports.get(module).into_iter().flatten() {
                    if seen.insert(target) {
                        next.push(target);
                    }
                }
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.files.keys().map(|module| (module, reach(module))).collect();
        let mut circles = BTreeSet::new();
        for (module, others) in &reached {
            if others.contains(module) {
                let back =
                    |other: &&&Module| reached.get(*other).is_some_and(|of| of.contains(module));
                circles.insert(others.iter().filter(back).map(|other| (*other).clone()).collect());
            }
        }
        circles.into_iter().collect()
    }
}

/// The packages, by the directories of their sources.
const PACKAGES: [&str; 12] = [
    "jute/src",
    "client/src",
    "client/ctl/src",
    "client/survey/src",
    "client/torture/src",
    "server/src",
    "server/cli/src",
    "server/console/src",
    "server/http/src",
    "server/migrate/src",
    "server/replica/src",
    "server/storage/src",
];

#[test]
fn few_files_import_from_each_other() {
    let mut found = Vec::new();
    for package in PACKAGES {
        let sources = Crate::read(&root().join(package));
        for circle in sources.circles() {
            let names: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
            if names.len() > CIRCLE_MAX {
                found.push(format!("{package}: {}", names.join(", ")));
            }
        }
    }
    assert!(found.is_empty(), "circles of imports:\n{}", found.join("\n"));
}

#[test]
fn a_circle_is_found() {
    let module = |name: &str| vec![name.to_owned()];
    let crate_of = |files: &[(&str, &str)]| Crate {
        files: files.iter().map(|(name, code)| (module(name), FileImports::parse(code))).collect(),
    };
    let circle = crate_of(&[
        ("a", "use crate::b::{One, Two};"),
        ("b", "fn f() { super::c::g() }"),
        ("c", "pub use super::a::Three;"),
        ("d", "use super::c::Three;"),
    ]);
    assert_eq!(circle.circles(), [["a", "b", "c"].map(module).into()]);
    let straight = crate_of(&[
        ("a", "use crate::b::One;"),
        ("b", "#[cfg(test)] mod tests { use crate::a; } use std::fmt;"),
    ]);
    assert_eq!(straight.circles(), []);
}
