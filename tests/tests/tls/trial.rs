//! `zoolet up --tls`, for trials.

use std::process::Stdio;

use zoolet_client::tls::{StoreFile, TlsOptions};
use zoolet_client::{ClientOptions, CreateMode};
use zoolet_tests::ports::PortLease;
use zoolet_tests::up::{self, Up};

use super::run;

#[test]
fn an_ensemble_for_trials_makes_its_certificates_and_keeps_them() {
    let (_lease, port) = PortLease::take_in_a_row(3).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let files = directory.path().join("tls");
    let servers = format!("localhost:{port},localhost:{},localhost:{}", port + 1, port + 2);
    for (path, options) in [("/first", &["--tls"][..]), ("/second", &[])] {
        let mut command = up::on_ports(3, port).unwrap();
        command.arg("--data-dir").arg(directory.path()).args(options).stderr(Stdio::null());
        let up = Up::spawn(&mut command, 3).unwrap();
        run(async {
            let tls = TlsOptions::new()
                .trust_store(StoreFile::new(files.join("ca.pem")))
                .key_store(StoreFile::new(files.join("client.pem")));
            let options = ClientOptions::new().connector(tls.connector().unwrap());
            let client = options.connect(&servers).await.unwrap();
            client.create(path, b"", CreateMode::Persistent).await.unwrap();
            assert!(client.exists("/first").await.unwrap().is_some());
            let known = client.who_am_i().await.unwrap();
            assert!(known.iter().any(|it| it.user == "CN=client"), "{known:?}");
            client.close().await.unwrap();
        });
        assert!(up.stop().unwrap().success());
    }
}
