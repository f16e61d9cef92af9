//! The table of options and presets, which the library owns and which never changes.
use crate::text::terminated;
use crate::{sys, OptionFlags, OptionType, Options, Result, When};
use std::ptr;

/// A row of the option table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OptionInfo {
    pub key: &'static str,
    /// As [`crate::Options::set`] reads it.
    pub default_text: &'static str,
    pub unit: &'static str,
    pub doc: &'static str,
    pub since: &'static str,
    pub source: &'static str,
    /// Not empty: only the default is accepted, for this reason.
    pub unsupported_reason: &'static str,
    pub kind: OptionType,
    pub when: When,
    pub flags: OptionFlags,
    pub min_i64: i64,
    pub max_i64: i64,
    pub min_u64: u64,
    pub max_u64: u64,
    pub min_f64: f64,
    pub max_f64: f64,
    pub num_choices: usize,
}

/// A named set of values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preset {
    pub name: &'static str,
    pub doc: &'static str,
    /// Keys and values in key order.
    pub settings: Vec<(String, String)>,
}

impl OptionInfo {
    /// # Safety
    /// `raw` is a row that the library wrote.
    unsafe fn from_raw(raw: &sys::rl_option_info) -> OptionInfo {
        OptionInfo {
            key: terminated(raw.key),
            default_text: terminated(raw.default_text),
            unit: terminated(raw.unit),
            doc: terminated(raw.doc),
            since: terminated(raw.since),
            source: terminated(raw.source),
            unsupported_reason: terminated(raw.unsupported_reason),
            kind: OptionType::from_raw(raw.type_),
            when: When::from_raw(raw.when),
            flags: OptionFlags::from_bits(raw.flags),
            min_i64: raw.min_i64,
            max_i64: raw.max_i64,
            min_u64: raw.min_u64,
            max_u64: raw.max_u64,
            min_f64: raw.min_f64,
            max_f64: raw.max_f64,
            num_choices: raw.num_choices,
        }
    }

    /// The choices of an enum option: the value and what it means.
    pub fn choices(&self) -> Result<Vec<(&'static str, &'static str)>> {
        let (key, len) = (self.key.as_ptr().cast(), self.key.len());
        let choice = |index| {
            let (mut name, mut doc) = (ptr::null(), ptr::null());
            // SAFETY: both texts are the library's.
            unsafe {
                call!(rl_option_choice(key, len, index, &mut name, &mut doc))?;
                Ok((terminated(name), terminated(doc)))
            }
        };
        (0..self.num_choices).map(choice).collect()
    }
}

/// The option with this key.
pub fn option(key: &str) -> Result<OptionInfo> {
    let (text, len) = (key.as_ptr().cast(), key.len());
    // SAFETY: the key lives during the call, and the row's texts are the library's.
    unsafe {
        let raw = struct_of!(rl_option_info, rl_option_info_init, rl_option_find(text, len))?;
        Ok(OptionInfo::from_raw(&raw))
    }
}

/// Every option in key order.
pub fn option_table() -> Result<Vec<OptionInfo>> {
    // SAFETY: the rows' texts are the library's.
    unsafe {
        let row = |i| struct_of!(rl_option_info, rl_option_info_init, rl_option_at(i));
        (0..sys::rl_option_count()).map(|i| row(i).map(|raw| OptionInfo::from_raw(&raw))).collect()
    }
}

/// Every preset in name order.
pub fn presets() -> Result<Vec<Preset>> {
    // SAFETY: the function has no conditions.
    (0..unsafe { sys::rl_preset_count() }).map(preset).collect()
}

fn preset(index: usize) -> Result<Preset> {
    let (mut name, mut doc) = (ptr::null(), ptr::null());
    // SAFETY: both texts are the library's.
    let (name, doc) = unsafe {
        call!(rl_preset_at(index, &mut name, &mut doc))?;
        (terminated(name), terminated(doc))
    };
    let mut options = Options::new()?;
    options.apply_preset(name)?;
    let lines = options.dump(true)?;
    let setting = |line: &str| line.split_once('=').map(|(key, text)| (key.into(), text.into()));
    Ok(Preset { name, doc, settings: lines.lines().filter_map(setting).collect() })
}
