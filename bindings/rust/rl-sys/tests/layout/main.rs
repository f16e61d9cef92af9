//! Sizes, offsets and constants as Rust has them, against what a C program of tools/gen_rust.py
//! printed to the file that RL_LAYOUT names.
use std::fmt::Write;

macro_rules! layout {
    ($out:expr, $name:ident, $($field:ident),*) => {{
        let whole = std::mem::MaybeUninit::<$name>::zeroed();
        // SAFETY: every field is a number or a pointer, which zeros are a value of.
        let value = unsafe { &*whole.as_ptr() };
        let start = value as *const $name as usize;
        let size = std::mem::size_of::<$name>();
        $crate::line($out, format_args!("{} {}", stringify!($name), size));
        $(
            let at = &value.$field as *const _ as usize - start;
            let name = stringify!($field).trim_end_matches('_');
            let size = std::mem::size_of_val(&value.$field);
            $crate::line($out, format_args!("  {} {} {}", name, at, size));
        )*
    }};
}

#[rustfmt::skip]
mod table;

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{}", text).expect("a String takes all text");
}

#[test]
fn bindings_have_the_layout_of_c() {
    let path = match std::env::var_os("RL_LAYOUT") {
        Some(path) => path,
        None => return println!("skipped: RL_LAYOUT names no file with the layout of C"),
    };
    let of_c = std::fs::read_to_string(path).expect("RL_LAYOUT names a readable file");
    let mut of_rust = String::new();
    table::structs(&mut of_rust);
    for (name, value) in table::CONSTANTS {
        line(&mut of_rust, format_args!("{} {}", name, value));
    }
    for (rust, c) in of_rust.lines().zip(of_c.lines()) {
        assert_eq!(rust, c);
    }
    assert_eq!(of_rust, of_c);
}
