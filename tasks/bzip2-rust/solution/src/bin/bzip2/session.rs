//! What the end of the process depends on, wherever it comes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Compress,
    Decompress,
    Test,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    StdinToStdout,
    FileToStdout,
    FileToFile,
}

#[derive(Clone)]
pub struct Session {
    pub program: Vec<u8>,
    pub in_name: Vec<u8>,
    pub out_name: Vec<u8>,
    pub op: Op,
    pub source: Source,
    pub noisy: bool,
    /// Whether the output file is incomplete.
    pub delete_output: bool,
    pub n_names: i32,
    pub n_processed: i32,
    pub exit_value: i32,
}

static SESSION: Mutex<Session> = Mutex::new(Session {
    program: Vec::new(),
    in_name: Vec::new(),
    out_name: Vec::new(),
    op: Op::Compress,
    source: Source::StdinToStdout,
    noisy: true,
    delete_output: false,
    n_names: 0,
    n_processed: 0,
    exit_value: 0,
});

/// A signal came while the session was locked.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

fn lock() -> MutexGuard<'static, Session> {
    SESSION.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn with<R>(action: impl FnOnce(&mut Session) -> R) -> R {
    let result = action(&mut lock());
    if INTERRUPTED.swap(false, Ordering::Relaxed) {
        crate::messages::interrupted(&snapshot());
    }
    result
}

pub fn update(action: impl FnOnce(&mut Session)) {
    with(action);
}

pub fn read<R>(action: impl FnOnce(&Session) -> R) -> R {
    with(|session| action(session))
}

pub fn snapshot() -> Session {
    lock().clone()
}

/// For signal handlers, which must not wait for the code they interrupt: None postpones
/// the handling to the moment that code lets go of the session.
pub fn snapshot_in_handler() -> Option<Session> {
    match SESSION.try_lock() {
        Ok(session) => Some(session.clone()),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner().clone()),
        Err(TryLockError::WouldBlock) => {
            INTERRUPTED.store(true, Ordering::Relaxed);
            None
        }
    }
}

/// Raises the exit status; a worse one that is already set stays.
pub fn set_exit(value: i32) {
    update(|s| s.exit_value = s.exit_value.max(value));
}
