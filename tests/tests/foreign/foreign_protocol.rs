//! The protocol between foreign programs and the harness, spoken by small shell programs.

use std::process::Command;
use std::time::Duration;

use zoolet_tests::foreign::{self, Ensemble, EnsembleError, ForeignError};

/// No servers: it notes what is asked of it.
#[derive(Default)]
struct FakeEnsemble {
    asked: Vec<String>,
}

impl Ensemble for FakeEnsemble {
    fn connect_string(&self) -> String {
        "127.0.0.1:1,127.0.0.1:2".to_owned()
    }

    fn kill_server(&mut self, address: &str) -> Result<(), EnsembleError> {
        self.asked.push(format!("kill {address}"));
        Ok(())
    }

    fn restart_server(&mut self, address: &str) -> Result<(), EnsembleError> {
        self.asked.push(format!("restart {address}"));
        Ok(())
    }
}

fn run(script: &str) -> (Result<foreign::Report, ForeignError>, Vec<String>) {
    let mut servers = FakeEnsemble::default();
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let limit = Duration::from_secs(5);
    let result = foreign::run_program_within(&mut command, &mut servers, limit);
    (result, servers.asked)
}

#[test]
fn a_program_loses_a_server_and_gets_it_back() {
    let (result, asked) = run(r#"
        echo "talking to $ZK_CONNECT"
        echo "LOSE SERVER 127.0.0.1:2"; read -r answer; [ "$answer" = "LOST 127.0.0.1:2" ] || exit 3
        echo "BRING BACK"; read -r answer; [ "$answer" = "BACK" ] || exit 4
        echo "OK 7 checks"
    "#);
    let report = result.unwrap();
    assert_eq!((report.checks, report.losses), (7, 1));
    assert_eq!(asked, ["kill 127.0.0.1:2", "restart 127.0.0.1:2"]);
}

#[test]
fn a_failing_exit_code_is_an_error_with_everything_that_was_said() {
    let (result, _) = run("echo out; echo err >&2; echo 'OK 1 checks'; exit 5");
    let error = result.unwrap_err();
    assert!(matches!(error, ForeignError::Exit { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("out\n") && text.contains("err\n"), "{text}");
}

#[test]
fn a_program_without_a_verdict_is_an_error() {
    for script in ["true", "echo 'OK 0 checks'", "echo 'OK 1 checks'; echo more", "echo 'OK'"] {
        let (result, _) = run(script);
        let error = result.unwrap_err();
        assert!(matches!(error, ForeignError::NoVerdict { .. }), "{script}: {error}");
    }
}

#[test]
fn bringing_back_what_was_not_lost_is_an_error() {
    let (result, asked) = run("echo 'BRING BACK'; read -r answer; echo 'OK 1 checks'");
    assert!(matches!(result.unwrap_err(), ForeignError::Ensemble { .. }));
    assert!(asked.is_empty());
}

#[test]
fn a_program_that_hangs_is_ended_with_its_children() {
    let mut servers = FakeEnsemble::default();
    let mut command = Command::new("sh");
    command.args(["-c", "echo started; sleep 600 & sleep 600"]);
    let limit = Duration::from_millis(300);
    let error = foreign::run_program_within(&mut command, &mut servers, limit).unwrap_err();
    // The error holds the whole stderr: it could not be there while a child kept it open.
    assert!(matches!(error, ForeignError::TooLong { .. }), "{error}");
}
