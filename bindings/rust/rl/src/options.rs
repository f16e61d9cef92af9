//! A set with a value for every option. Setters check key, type and range at once.
use crate::text::Bytes;
use crate::{sys, Error, OptionType, Result, Status};
use std::ptr;

handle!(
    /// A value for every option; [`crate::option_table()`] lists them. Objects copy the set that
    /// they are made with.
    ///
    /// ```
    /// # fn main() -> rl::Result<()> {
    /// let mut options = rl::Options::new()?;
    /// options.set("pipeline.reply_timeout_ns", "30s")?;
    /// assert_eq!(options.get_i64("pipeline.reply_timeout_ns")?, 30_000_000_000);
    /// let error = options.set("engine.blok_size", "64").unwrap_err();
    /// assert_eq!(error.status, rl::Status::UnknownOption);
    /// assert_eq!(error.nearest[0], "engine.block_size");
    /// # Ok(())
    /// # }
    /// ```
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

    /// An independent copy.
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
        let (key, value) = text.split_once('=').ok_or_else(|| {
            let message = format!("\"{}\" is not of the form key=value", text);
            Error::of_host(Status::InvalidArgument, "text", &message)
        })?;
        self.set(key, value)
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
        self.typed(key, &[OptionType::Bool]).map(|(value, _)| value.i64 != 0)
    }

    /// An integer of any type; one that does not fit is 0.
    pub fn get_i64(&self, key: &str) -> Result<i64> {
        self.typed(key, INTEGERS).map(|(value, _)| value.i64)
    }

    /// An integer of any type; one that does not fit is 0.
    pub fn get_u64(&self, key: &str) -> Result<u64> {
        self.typed(key, INTEGERS).map(|(value, _)| value.u64)
    }

    pub fn get_f64(&self, key: &str) -> Result<f64> {
        self.typed(key, &[OptionType::F64]).map(|(value, _)| value.f64)
    }

    pub fn get_string(&self, key: &str) -> Result<String> {
        self.typed(key, &[OptionType::String, OptionType::Enum]).map(|(_, text)| text)
    }

    pub fn get_string_list(&self, key: &str) -> Result<Vec<String>> {
        let (value, text) = self.typed(key, &[OptionType::StringList])?;
        Ok(if value.num_items == 0 { Vec::new() } else { items(&text) })
    }

    pub fn get_i64_list(&self, key: &str) -> Result<Vec<i64>> {
        let (_, text) = self.typed(key, &[OptionType::I64List])?;
        // librl wrote the numbers: each can be read.
        Ok(items(&text).iter().filter_map(|item| item.parse().ok()).collect())
    }

    /// A value of any type as the text that [`Options::set`] reads back to the same value.
    pub fn get(&self, key: &str) -> Result<String> {
        self.value(key).map(|(_, text)| text)
    }

    pub fn is_default(&self, key: &str) -> Result<bool> {
        self.value(key).map(|(value, _)| value.is_default != 0)
    }

    fn value(&self, key: &str) -> Result<(sys::rl_option_value, String)> {
        // SAFETY: the function writes the struct that it is given.
        let mut value = unsafe { initial!(rl_option_value, rl_option_value_init) };
        let text = with_key!(ptr::null_mut(); self, key, rl_options_get(&mut value))?;
        Ok((value, Bytes::from_raw(text).to_text()))
    }

    /// The value if it has one of these types.
    fn typed(&self, key: &str, types: &[OptionType]) -> Result<(sys::rl_option_value, String)> {
        let found = self.value(key)?;
        if types.contains(&OptionType::from_raw(found.0.type_)) {
            return Ok(found);
        }
        Err(Error::of_host(Status::WrongType, key, &format!("{} has another type", key)))
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
        self.import(sys::RL_FORMAT_JSON, json.as_bytes())
    }

    /// Takes the values of a FlatBuffers document over, or none.
    pub fn import_flatbuffer(&mut self, data: &[u8]) -> Result<()> {
        self.import(sys::RL_FORMAT_FLATBUFFER, data)
    }

    fn import(&mut self, format: i32, data: &[u8]) -> Result<()> {
        let (start, size) = (data.as_ptr().cast(), data.len());
        // SAFETY: the document lives during the call.
        unsafe { call!(rl_options_import(self.as_ptr(), format, start, size)) }
    }

    /// Checks combinations of options; several violations are the parts of the error.
    pub fn validate(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_options_validate(self.as_ptr())) }
    }

    /// Lines "key=value" of all options, or of those that differ from their default.
    pub fn dump(&self, only_changed: bool) -> Result<String> {
        self.export(sys::RL_FORMAT_TEXT, only_changed).map(|text| text.to_text())
    }

    pub fn export_json(&self, only_changed: bool) -> Result<String> {
        self.export(sys::RL_FORMAT_JSON, only_changed).map(|text| text.to_text())
    }

    pub fn export_flatbuffer(&self, only_changed: bool) -> Result<Vec<u8>> {
        self.export(sys::RL_FORMAT_FLATBUFFER, only_changed).map(|bytes| bytes.as_slice().to_vec())
    }

    fn export(&self, format: i32, only_changed: bool) -> Result<Bytes> {
        let only_changed = only_changed.into();
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Bytes, rl_options_export(self.as_ptr(), format, only_changed)) }
    }

    /// A digest of the options on which the bits of a run depend.
    pub fn identity(&self) -> Result<u64> {
        // SAFETY: the handle is this object's.
        unsafe { value_of!(0, rl_options_identity(self.as_ptr())) }
    }
}

const INTEGERS: &[OptionType] =
    &[OptionType::I64, OptionType::U64, OptionType::DurationNs, OptionType::Bytes];

/// The elements of a list, from its text.
fn items(text: &str) -> Vec<String> {
    let (mut all, mut item) = (Vec::new(), String::new());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ',' => all.push(std::mem::take(&mut item)),
            '\\' => item.extend(letters.next().map(|escaped| match escaped {
                'n' => '\n',
                't' => '\t',
                other => other,
            })),
            other => item.push(other),
        }
    }
    all.push(item);
    all
}

/// The handle of options that may be left out.
pub(crate) fn handle_or_null(options: Option<&Options>) -> *const sys::rl_options {
    options.map_or(ptr::null(), |o| o.as_ptr() as *const _)
}
