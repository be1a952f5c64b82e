//! The samples that come with bzip2, there and back.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

fn bzip2(args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bzip2"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let data = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&data));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    output.stdout
}

#[test]
fn samples_are_what_they_were() {
    for (number, level) in [("1", "-1"), ("2", "-2"), ("3", "-3")] {
        let plain = fs::read(format!("sample{}.ref", number)).unwrap();
        let packed = fs::read(format!("sample{}.bz2", number)).unwrap();
        assert!(bzip2(&[level], &plain) == packed);
        assert!(bzip2(&["-d"], &packed) == plain);
        assert!(bzip2(&["-ds"], &packed) == plain);
    }
}
