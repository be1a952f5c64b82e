use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;

fn usage(called: &[u8]) -> i32 {
    complain(&[called, b": usage: tally count|turn [FILE]\n"]);
    2
}

fn complain(parts: &[&[u8]]) {
    let _ = std::io::stderr().write_all(&parts.concat());
}

fn is_gap(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t')
}

fn count(text: &[u8]) -> String {
    let lines = text.iter().filter(|&&b| b == b'\n').count();
    let words = text.split(|&b| is_gap(b)).filter(|w| !w.is_empty()).count();
    format!("{} {} {}\n", lines, words, text.len())
}

fn turn(byte: u8) -> u8 {
    match byte {
        b'a'..=b'm' | b'A'..=b'M' => byte + 13,
        b'n'..=b'z' | b'N'..=b'Z' => byte - 13,
        _ => byte,
    }
}

fn run(args: &[Vec<u8>]) -> i32 {
    if args.len() < 2 || args.len() > 3 {
        return usage(&args[0]);
    }
    let mut text = Vec::new();
    if let Some(name) = args.get(2) {
        match std::fs::File::open(std::ffi::OsStr::from_bytes(name)) {
            Ok(mut file) => drop(file.read_to_end(&mut text)),
            Err(_) => {
                complain(&[&args[0], b": cannot read ", name, b"\n"]);
                return 1;
            }
        }
    }
    let answer = match args[1].as_slice() {
        b"count" | b"turn" => {
            if args.len() == 2 {
                let _ = std::io::stdin().read_to_end(&mut text);
            }
            if args[1] == b"count" { count(&text).into_bytes() } else { text.into_iter().map(turn).collect() }
        }
        _ => return usage(&args[0]),
    };
    let _ = std::io::stdout().write_all(&answer);
    0
}

fn main() {
    let args: Vec<Vec<u8>> = std::env::args_os().map(|a| a.as_bytes().to_vec()).collect();
    std::process::exit(run(&args));
}
