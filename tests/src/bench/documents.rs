//! The files that a run writes, when it is at its end: one that is interrupted changes none.

use std::fs;
use std::io;
use std::path::Path;

use super::error::BenchError;
use super::json;
use super::markdown::{self, PLOTS};
use super::plots;
use super::results::Results;
use super::rows::Group;
use super::section;

const PAGE: &str = "performance.md";
const DATA: &str = "performance.json";

/// Returns the page as it is. In a directory without one it has a title and an empty section.
pub(super) fn read_page(directory: &Path) -> Result<String, BenchError> {
    let path = directory.join(PAGE);
    let page = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("# Performance\n\n{}\n{}\n", section::BEGIN, section::END)
        }
        other => other.map_err(BenchError::file(&path))?,
    };
    with_section(&page, "", &path)?;
    Ok(page)
}

/// Returns the results of earlier runs, if there are any.
pub(super) fn read_results(directory: &Path) -> Result<Results, BenchError> {
    let path = directory.join(DATA);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Results::default()),
        Err(source) => Err(BenchError::File { path, source }),
        Ok(text) => json::read(&text).map_err(|why| BenchError::Data { path, why }),
    }
}

/// Writes the section, the data and the plots.
pub(super) fn write(directory: &Path, page: &str, results: &Results) -> Result<(), BenchError> {
    let page = with_section(page, &markdown::section(results), &directory.join(PAGE))?;
    let mut files = Vec::new();
    if !results.rows(Group::Loads).is_empty() {
        files.push((format!("{PLOTS}/throughput.svg"), plots::throughput(results)));
        files.push((format!("{PLOTS}/latency.svg"), plots::latency(results)));
    }
    if !results.rows(Group::Failovers).is_empty() {
        files.push((format!("{PLOTS}/failover.svg"), plots::failover(results)));
    }
    files.push((DATA.to_owned(), format!("{:#}\n", json::write(results))));
    files.push((PAGE.to_owned(), page));
    let plots = directory.join(PLOTS);
    fs::create_dir_all(&plots).map_err(BenchError::file(&plots))?;
    for (name, text) in files {
        replace(&directory.join(name), &text)?;
    }
    Ok(())
}

fn with_section(page: &str, text: &str, path: &Path) -> Result<String, BenchError> {
    section::replace(page, text).ok_or_else(|| BenchError::NoSection {
        path: path.to_owned(),
        begin: section::BEGIN,
        end: section::END,
    })
}

/// Writes a whole file under another name first.
fn replace(path: &Path, text: &str) -> Result<(), BenchError> {
    let new = path.with_added_extension("new");
    fs::write(&new, text).map_err(BenchError::file(&new))?;
    fs::rename(&new, path).map_err(BenchError::file(path))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::results::tests::example;
    use super::*;

    fn files(directory: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_run_writes_the_section_the_data_and_the_plots() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let page = format!("# P\n\nby hand\n\n{}\nold\n{}\n", section::BEGIN, section::END);
        fs::write(path.join(PAGE), &page).unwrap();
        write(path, &read_page(path).unwrap(), &example()).unwrap();
        let written = fs::read_to_string(path.join(PAGE)).unwrap();
        assert!(written.contains("by hand") && written.contains("110000"), "{written}");
        assert!(!written.contains("\nold\n"), "{written}");
        let expected = [PLOTS, DATA, PAGE].map(str::to_owned);
        assert_eq!(files(path), BTreeSet::from(expected));
        let plots = ["failover.svg", "latency.svg", "throughput.svg"].map(str::to_owned);
        assert_eq!(files(&path.join(PLOTS)), BTreeSet::from(plots));
        assert_eq!(read_results(path).unwrap(), example());
    }

    #[test]
    fn data_that_a_run_could_not_add_to_is_refused_before_it() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read_results(directory.path()).unwrap(), Results::default());
        fs::write(directory.path().join(DATA), "{}").unwrap();
        let error = read_results(directory.path()).unwrap_err().to_string();
        assert!(error.contains("performance.json: `runs` is missing"), "{error}");
    }

    #[test]
    fn a_page_without_a_section_is_refused_before_the_run() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(PAGE), "# P\n").unwrap();
        let error = read_page(directory.path()).unwrap_err().to_string();
        assert!(error.contains("no section between the lines"), "{error}");
    }

    #[test]
    fn the_page_of_this_repository_has_the_section() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        assert!(read_page(&docs).unwrap().starts_with("# Performance\n"));
    }
}
