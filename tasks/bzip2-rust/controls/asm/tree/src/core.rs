//! The codec.

use std::arch::global_asm;

global_asm!(include_str!("core.s"), options(att_syntax));
