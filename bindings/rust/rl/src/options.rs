//! A set with a value for every option. Setters check key, type and range at once.
use crate::text::Bytes;
use crate::{sys, Result};
use std::ptr;

handle!(
    /// A value for every option; [`crate::option_table`] lists them. Objects copy the set that they
    /// are made with.
    Options,
    rl_options,
    rl_options_destroy
);

/// Calls a function with the handle, a text as pointer and length, and more; `Result` of the last
/// result parameter.
macro_rules! with_key {
    ($self:ident, $key:ident, $function:ident($($more:expr),*)) => {
        // SAFETY: the texts live during the call, and the handle is this object's.
        unsafe { call!($function($self.as_ptr(), $key.as_ptr().cast(), $key.len() $(, $more)*)) }
    };
    ($zero:expr; $self:ident, $key:ident, $function:ident($($more:expr),*)) => {{
        let mut out = $zero;
        with_key!($self, $key, $function($($more,)* &mut out)).map(|()| out)
    }};
}

impl Options {
    /// Every option at its default.
    pub fn new() -> Result<Self> {
        // SAFETY: the result parameter is given by the macro.
        unsafe { object_of!(Self, rl_options_create()) }
    }

    /// An independent copy, which is not frozen.
    pub fn try_clone(&self) -> Result<Self> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Self, rl_options_clone(self.as_ptr())) }
    }

    /// A value of any type from text: "true", "12", "3e-6", "30s", "2GiB", "a,b,c".
    pub fn set(&mut self, key: &str, text: &str) -> Result<()> {
        with_key!(self, key, rl_options_set_text(text.as_ptr().cast(), text.len()))
    }

    /// The same from one text "key=value".
    pub fn set_assignment(&mut self, text: &str) -> Result<()> {
        with_key!(self, text, rl_options_set_assignment())
    }

    pub fn set_bool(&mut self, key: &str, value: bool) -> Result<()> {
        with_key!(self, key, rl_options_set_bool(u32::from(value)))
    }

    pub fn set_i64(&mut self, key: &str, value: i64) -> Result<()> {
        with_key!(self, key, rl_options_set_i64(value))
    }

    pub fn set_u64(&mut self, key: &str, value: u64) -> Result<()> {
        with_key!(self, key, rl_options_set_u64(value))
    }

    pub fn set_f64(&mut self, key: &str, value: f64) -> Result<()> {
        with_key!(self, key, rl_options_set_f64(value))
    }

    pub fn set_string(&mut self, key: &str, value: &str) -> Result<()> {
        with_key!(self, key, rl_options_set_string(value.as_ptr().cast(), value.len()))
    }

    pub fn set_string_list(&mut self, key: &str, values: &[&str]) -> Result<()> {
        let texts: Vec<_> = values.iter().map(|v| v.as_ptr().cast()).collect();
        let lens: Vec<_> = values.iter().map(|v| v.len()).collect();
        let count = values.len();
        with_key!(self, key, rl_options_set_string_list(texts.as_ptr(), lens.as_ptr(), count))
    }

    pub fn set_i64_list(&mut self, key: &str, values: &[i64]) -> Result<()> {
        with_key!(self, key, rl_options_set_i64_list(values.as_ptr(), values.len()))
    }

    pub fn get_bool(&self, key: &str) -> Result<bool> {
        with_key!(0; self, key, rl_options_get_bool()).map(|value| value != 0)
    }

    pub fn get_i64(&self, key: &str) -> Result<i64> {
        with_key!(0; self, key, rl_options_get_i64())
    }

    pub fn get_u64(&self, key: &str) -> Result<u64> {
        with_key!(0; self, key, rl_options_get_u64())
    }

    pub fn get_f64(&self, key: &str) -> Result<f64> {
        with_key!(0.0; self, key, rl_options_get_f64())
    }

    pub fn get_string(&self, key: &str) -> Result<String> {
        with_key!(ptr::null_mut(); self, key, rl_options_get_string())
            .map(Bytes::from_raw)
            .map(|text| text.to_text())
    }

    pub fn get_string_list(&self, key: &str) -> Result<Vec<String>> {
        let at = |i| {
            with_key!(ptr::null_mut(); self, key, rl_options_get_list_string(i))
                .map(Bytes::from_raw)
        };
        (0..self.list_size(key)?).map(|i| at(i).map(|text| text.to_text())).collect()
    }

    pub fn get_i64_list(&self, key: &str) -> Result<Vec<i64>> {
        let at = |i| with_key!(0; self, key, rl_options_get_list_i64(i));
        (0..self.list_size(key)?).map(at).collect()
    }

    fn list_size(&self, key: &str) -> Result<usize> {
        with_key!(0; self, key, rl_options_get_list_size())
    }

    /// A value of any type as the text that [`Options::set`] reads back to the same value.
    pub fn get(&self, key: &str) -> Result<String> {
        with_key!(ptr::null_mut(); self, key, rl_options_get_text())
            .map(Bytes::from_raw)
            .map(|text| text.to_text())
    }

    pub fn is_default(&self, key: &str) -> Result<bool> {
        with_key!(0; self, key, rl_options_is_default()).map(|value| value != 0)
    }

    /// Back to the default.
    pub fn unset(&mut self, key: &str) -> Result<()> {
        with_key!(self, key, rl_options_unset())
    }

    /// Sets all values of a preset, or none.
    pub fn apply_preset(&mut self, name: &str) -> Result<()> {
        with_key!(self, name, rl_options_apply_preset())
    }

    /// Takes the values of a JSON document over, or none.
    pub fn import_json(&mut self, json: &str) -> Result<()> {
        with_key!(self, json, rl_options_import_json())
    }

    /// Takes the values of a FlatBuffers document over, or none.
    pub fn import_flatbuffer(&mut self, data: &[u8]) -> Result<()> {
        with_key!(self, data, rl_options_import_flatbuffer())
    }

    /// From now on every change of this set is an error.
    pub fn freeze(&mut self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_options_freeze(self.as_ptr())) }
    }

    pub fn is_frozen(&self) -> Result<bool> {
        // SAFETY: the handle is this object's.
        unsafe { value_of!(0, rl_options_is_frozen(self.as_ptr())) }.map(|value| value != 0)
    }

    /// Checks combinations of options; several violations are the parts of the error.
    pub fn validate(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_options_validate(self.as_ptr())) }
    }

    /// Lines "key=value" of all options, or of those that differ from their default.
    pub fn dump(&self, only_changed: bool) -> Result<String> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Bytes, rl_options_dump(self.as_ptr(), only_changed.into())) }
            .map(|text| text.to_text())
    }

    /// Lines "key=value" where the sets differ, with the values of `other`.
    pub fn diff(&self, other: &Options) -> Result<String> {
        // SAFETY: the handles are these objects'.
        unsafe { object_of!(Bytes, rl_options_diff(self.as_ptr(), other.as_ptr())) }
            .map(|text| text.to_text())
    }

    pub fn export_json(&self, only_changed: bool) -> Result<String> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Bytes, rl_options_export_json(self.as_ptr(), only_changed.into())) }
            .map(|text| text.to_text())
    }

    pub fn export_flatbuffer(&self, only_changed: bool) -> Result<Vec<u8>> {
        // SAFETY: the handle is this object's.
        unsafe {
            object_of!(Bytes, rl_options_export_flatbuffer(self.as_ptr(), only_changed.into()))
        }
        .map(|bytes| bytes.as_slice().to_vec())
    }

    /// A digest of all values.
    pub fn hash(&self) -> Result<u64> {
        // SAFETY: the handle is this object's.
        unsafe { value_of!(0, rl_options_hash(self.as_ptr())) }
    }

    /// A digest of the options on which the bits of a run depend.
    pub fn identity(&self) -> Result<u64> {
        // SAFETY: the handle is this object's.
        unsafe { value_of!(0, rl_options_identity(self.as_ptr())) }
    }
}

/// The handle of options that may be left out.
pub(crate) fn handle_or_null(options: Option<&Options>) -> *const sys::rl_options {
    options.map_or(ptr::null(), |o| o.as_ptr() as *const _)
}
