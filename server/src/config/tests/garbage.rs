//! Random texts: a reader returns a value or an error, and does not panic.

use std::path::Path;

use super::super::files::Source;
use super::super::toml_file::read_all;
use super::{Texts, toml, zoo_with};

/// A small generator of numbers, so that a failure comes again.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }
}

const ZOO: &str = "dataDir=/d\nclientPort=2181\nserver.1=a:1:2;3\nserver.2=[::1]:1:2:observer|b\n\
    group.1=1:2\nweight.1=1\ndynamicConfigFile=/x\n4lw.commands.whitelist=*\njute.maxbuffer=0xff\n\
    tickTime=2\\\n 0\n\\u0061=b\nautopurge.snapRetainCount=-9\nssl.x=1\n";

#[test]
fn changed_and_random_texts_never_panic() {
    let root = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster.toml"));
    let dynamic = [("/x", ZOO), ("/d/myid", "1")];
    for seed in 0..3000_u64 {
        let mut numbers = Numbers(seed);
        for original in [ZOO, root, ""] {
            let mut bytes = original.as_bytes().to_vec();
            for _ in 0..=numbers.next(20) {
                let at = numbers.next(bytes.len() + 1);
                let end = (at + numbers.next(4)).min(bytes.len());
                let odd = b"\\\n\r=:[]{}\"'|;.,#!-+_0x19 \xff\xc3\x00server";
                let insert: Vec<u8> =
                    (0..numbers.next(4)).map(|_| odd[numbers.next(odd.len())]).collect();
                bytes.splice(at..end, insert);
            }
            let Ok(source) = Source::decode(Path::new("garbage"), bytes) else { continue };
            let _ = zoo_with(&source.text, None, &dynamic);
            let _ = zoo_with(ZOO, None, &[("/x", &source.text), ("/d/myid", &source.text)]);
            let _ = toml(&source.text, None);
            let _ = read_all(&source);
        }
    }
}

#[test]
fn text_that_is_not_utf_8_is_an_error_at_its_line() {
    let error = Source::decode(Path::new("zoo.cfg"), b"a=b\nc=\xff\n".to_vec()).unwrap_err();
    assert_eq!((error.line, error.why.as_str()), (2, "the text is not UTF-8"));
    let long = vec![b'#'; Source::BYTES_MAX + 1];
    assert!(Source::decode(Path::new("zoo.cfg"), long).unwrap_err().why.contains("too long"));
    assert!(
        super::super::zoo::read(
            &Source { file: "zoo.cfg".into(), text: String::new() },
            None,
            &Texts(&[])
        )
        .is_err()
    );
}
