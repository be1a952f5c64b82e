//! The shared library: what the port exports, and nothing else.

pub use port::abi::bzfile::*;
pub use port::abi::stream::*;
pub use port::abi::BZ2_bzlibVersion;
