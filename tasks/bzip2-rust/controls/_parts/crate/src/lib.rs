//! The library's interface over the core's.
#![allow(clippy::missing_safety_doc, non_snake_case)]

#[macro_use]
mod api;

use api::{Count, File, Number, Stream, Text};
use std::os::raw::{c_int, c_uint};

macro_rules! forward {
    ($($name:ident = $core:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {
        extern "C" { $(fn $core($($arg: $kind),*) -> $result;)* }
        $(
            #[no_mangle]
            pub unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
                $core($($arg),*)
            }
        )*
    };
}

for_each_function!(forward);

/// Called before the programs start.
pub fn ready() {}
