//! The command line and the flags from the environment.

use crate::messages::{self, say};
use crate::session::{self, Op, Source};
use bz2::sys;
use std::os::unix::ffi::OsStringExt;

/// Longer words in the environment are cut.
const MAX_WORD: usize = 1024;

/// Settings that stay the same for all files.
pub struct Options {
    pub verbosity: i32,
    pub keep: bool,
    pub small: bool,
    pub force: bool,
    pub level: i32,
    pub work_factor: i32,
    /// Width of the column of names in verbose output.
    pub name_width: usize,
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

pub fn from_environment(variable: &str) -> Vec<Vec<u8>> {
    let value = std::env::var_os(variable).unwrap_or_default().into_vec();
    value
        .split(is_space)
        .filter(|word| !word.is_empty())
        .map(|word| word[..word.len().min(MAX_WORD)].to_vec())
        .collect()
}

/// The words that are no flags. Each "--" is skipped, and ends the flags.
pub fn file_names(list: &[Vec<u8>]) -> impl Iterator<Item = &[u8]> {
    let mut flags_allowed = true;
    list.iter().map(Vec::as_slice).filter(move |word| {
        if *word == b"--" {
            flags_allowed = false;
            return false;
        }
        !(flags_allowed && word.first() == Some(&b'-'))
    })
}

fn contains(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|window| window == part.as_bytes())
}

pub fn parse(program: &[u8], list: &[Vec<u8>]) -> Options {
    let n_names = file_names(list).count();
    let widest = file_names(list).map(<[u8]>::len).max().unwrap_or(0);
    let mut parser = Parser {
        program,
        op: Op::Compress,
        source: if n_names == 0 { Source::StdinToStdout } else { Source::FileToFile },
        noisy: true,
        options: Options {
            verbosity: 0,
            keep: false,
            small: false,
            force: false,
            level: 9,
            work_factor: 30,
            name_width: widest.max(7),
        },
    };
    parser.apply_program_name(n_names);
    let flags = || list.iter().take_while(|word| *word != b"--");
    for word in flags().filter(|word| word.first() == Some(&b'-')) {
        if word.get(1) != Some(&b'-') {
            parser.short_flags(word);
        }
    }
    for word in flags() {
        parser.long_flag(word);
    }
    parser.finish(n_names)
}

struct Parser<'a> {
    program: &'a [u8],
    op: Op,
    source: Source,
    noisy: bool,
    options: Options,
}

impl Parser<'_> {
    fn apply_program_name(&mut self, n_names: usize) {
        let named = |part: &str| contains(self.program, part);
        if ["unzip", "UNZIP"].iter().any(|part| named(part)) {
            self.op = Op::Decompress;
        }
        if ["z2cat", "Z2CAT", "zcat", "ZCAT"].iter().any(|part| named(part)) {
            self.op = Op::Decompress;
            self.source =
                if n_names == 0 { Source::StdinToStdout } else { Source::FileToStdout };
        }
    }

    fn bad_flag(&self, word: &[u8]) -> ! {
        say(&[self.program, b": Bad flag `", word, b"'\n"]);
        messages::usage(self.program);
        sys::quit(1)
    }

    fn help(&self) -> ! {
        messages::usage(self.program);
        sys::quit(0)
    }

    fn short_flags(&mut self, word: &[u8]) {
        for &flag in &word[1..] {
            match flag {
                b'c' => self.source = Source::FileToStdout,
                b'd' => self.op = Op::Decompress,
                b'z' => self.op = Op::Compress,
                b'f' => self.options.force = true,
                b't' => self.op = Op::Test,
                b'k' => self.options.keep = true,
                b's' => self.options.small = true,
                b'q' => self.noisy = false,
                b'1'..=b'9' => self.options.level = i32::from(flag - b'0'),
                b'V' | b'L' => messages::license(),
                b'v' => self.options.verbosity += 1,
                b'h' => self.help(),
                _ => self.bad_flag(word),
            }
        }
    }

    fn long_flag(&mut self, word: &[u8]) {
        match word {
            b"--stdout" => self.source = Source::FileToStdout,
            b"--decompress" => self.op = Op::Decompress,
            b"--compress" => self.op = Op::Compress,
            b"--force" => self.options.force = true,
            b"--test" => self.op = Op::Test,
            b"--keep" => self.options.keep = true,
            b"--small" => self.options.small = true,
            b"--quiet" => self.noisy = false,
            b"--version" | b"--license" => messages::license(),
            b"--exponential" => self.options.work_factor = 1,
            b"--repetitive-best" | b"--repetitive-fast" => say(&[
                self.program,
                b": ",
                word,
                b" is redundant in versions 0.9.5 and above\n",
            ]),
            b"--fast" => self.options.level = 1,
            b"--best" => self.options.level = 9,
            b"--verbose" => self.options.verbosity += 1,
            b"--help" => self.help(),
            _ if word.starts_with(b"--") => self.bad_flag(word),
            _ => {}
        }
    }

    fn finish(mut self, n_names: usize) -> Options {
        self.options.verbosity = self.options.verbosity.min(4);
        if self.op == Op::Compress && self.options.small {
            self.options.level = self.options.level.min(2);
        }
        if self.op == Op::Test && self.source == Source::FileToStdout {
            say(&[self.program, b": -c and -t cannot be used together.\n"]);
            sys::quit(1);
        }
        if self.source == Source::FileToStdout && n_names == 0 {
            self.source = Source::StdinToStdout;
        }
        session::update(|s| {
            s.op = self.op;
            s.source = self.source;
            s.noisy = self.noisy;
            s.n_names = n_names as i32;
        });
        self.options
    }
}
