//! Macros of every object: the type around a handle, and calls with the library's last parameter.

/// A type that owns a handle and ends it when dropped. Dropped inside a function that the library
/// calls, it ends with the process instead: there the library lets destroying be without effect.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $raw:ident, $end:ident) => {
        $(#[$doc])*
        pub struct $name {
            raw: *mut crate::sys::$raw,
        }

        impl $name {
            pub(crate) fn from_raw(raw: *mut crate::sys::$raw) -> Self {
                Self { raw }
            }

            #[allow(dead_code)] // of some objects the library asks for the handle alone
            pub(crate) fn as_ptr(&self) -> *mut crate::sys::$raw {
                self.raw
            }

            #[allow(dead_code)] // Bytes are not public
            /// The handle of `rl.h`, for hosts that call the C interface too. It stays this
            /// object's.
            pub fn as_raw(&self) -> *mut std::os::raw::c_void {
                self.raw.cast()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the handle is this object's alone, and a dead one does no harm.
                unsafe { crate::sys::$end(self.raw) }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({:p})", stringify!($name), self.raw)
            }
        }

        const _: fn() = || {
            fn any_thread<T: crate::sys::AnyThread>() {}
            any_thread::<crate::sys::$raw>();
        };
        // SAFETY: a handle is a token that no memory of the host lies behind, and AnyThread holds
        // only while every function that takes it has the thread tag "any": another thread may use
        // it and end it.
        unsafe impl Send for $name {}
        // SAFETY: the same tag lets several threads call at once; what changes an object takes
        // turns in the library.
        unsafe impl Sync for $name {}
    };
}

/// Calls a function with its last parameter; `Result<Status>`, where a status is RL_OK or
/// another result.
macro_rules! status_of {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let mut err = std::ptr::null_mut();
        let status = crate::sys::$function($($argument,)* &mut err);
        crate::error::status_of(status, err)
    }};
}

/// Calls a function that succeeds or fails; `Result<()>`.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        status_of!($function($($argument),*)).and_then(crate::error::only_ok)
    };
}

/// Calls a function whose last result parameter is a value, at first `$zero`; `Result` of the
/// value.
macro_rules! value_of {
    ($zero:expr, $function:ident($($argument:expr),* $(,)?)) => {{
        let mut out = $zero;
        call!($function($($argument,)* &mut out)).map(|()| out)
    }};
}

/// Calls a function whose last result parameter is a new handle; `Result` of the object.
macro_rules! object_of {
    ($type:ty, $function:ident($($argument:expr),* $(,)?)) => {
        value_of!(std::ptr::null_mut(), $function($($argument),*)).map(<$type>::from_raw)
    };
}

/// A public struct as its init function leaves it.
macro_rules! initial {
    ($type:ident, $init:ident) => {{
        let mut out = std::mem::MaybeUninit::<crate::sys::$type>::zeroed();
        crate::sys::$init(out.as_mut_ptr(), std::mem::size_of::<crate::sys::$type>());
        // Zeros are a value of every public struct: its fields are numbers and pointers.
        out.assume_init()
    }};
}

/// Calls a function whose last result parameter is a public struct; `Result` of the struct.
macro_rules! struct_of {
    ($type:ident, $init:ident, $function:ident($($argument:expr),* $(,)?)) => {
        value_of!(initial!($type, $init), $function($($argument),*))
    };
}
