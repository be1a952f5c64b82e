//! The library's interface.
#![allow(clippy::missing_safety_doc, non_snake_case)]

#[macro_use]
mod api;
pub mod image;

use api::{Count, File, Number, Stream, Text};
use std::os::raw::{c_int, c_uint};

macro_rules! forward {
    ($($name:ident = $core:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => { $(
        #[no_mangle]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
            let found = image::function(concat!(stringify!($name), "\0"));
            let called: unsafe extern "C" fn($($kind),*) -> $result = std::mem::transmute(found);
            called($($arg),*)
        }
    )* };
}

for_each_function!(forward);
