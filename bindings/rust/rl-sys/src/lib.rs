//! The C interface of librl: every function, struct and constant of `rl.h`, which documents them.
//! Enums are integers, since a library newer than this package may know more values; handles are
//! opaque types.
#![allow(non_camel_case_types)]

#[rustfmt::skip]
mod bindings;
pub use bindings::*;

/// A handle that every thread may use, several at once too.
///
/// # Safety
/// Every function that takes the handle has the thread tag "any" in `rl.h`; `tools/gen_rust.py`
/// implements the trait for exactly these.
pub unsafe trait AnyThread {}
