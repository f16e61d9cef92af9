//! Structs that can grow: one field more breaks no host. What a host gives has a setter for each
//! field, what the library returns is copied from its struct.

/// A struct that a host gives, with a setter of the same name for each field.
macro_rules! given {
    ($(#[$meta:meta])* $name:ident $(<$life:lifetime>)? {
        $($(#[$doc:meta])* $field:ident: $kind:ty,)*
    }) => {
        $(#[$meta])*
        #[non_exhaustive]
        pub struct $name $(<$life>)? {
            $($(#[$doc])* pub $field: $kind,)*
        }

        impl $(<$life>)? $name $(<$life>)? {
            $(
                #[doc = concat!("Sets `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, $field: $kind) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}

/// A struct that the library fills in, whose fields have the names that they have in `rl.h`.
macro_rules! returned {
    ($(#[$meta:meta])* $name:ident = $raw:ident {
        $($(#[$doc:meta])* $field:ident: $kind:ty,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: $kind,)*
        }

        impl $name {
            pub(crate) fn from_raw(raw: &crate::sys::$raw) -> Self {
                Self { $($field: <$kind as crate::records::Copied<_>>::copied(raw.$field),)* }
            }
        }
    };
}

/// A field of a struct of `rl.h` as Rust has it.
pub(crate) trait Copied<Raw> {
    fn copied(raw: Raw) -> Self;
}

macro_rules! copied_as_it_is {
    ($($kind:ty)*) => {
        $(impl Copied<$kind> for $kind {
            fn copied(raw: $kind) -> Self {
                raw
            }
        })*
    };
}

copied_as_it_is!(i32 i64 u32 u64 f64);

impl Copied<u32> for bool {
    fn copied(raw: u32) -> Self {
        raw != 0
    }
}
