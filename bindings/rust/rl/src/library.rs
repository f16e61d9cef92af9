//! The library itself: its version, how it was built and what works on this machine.
use crate::text::{terminated, Bytes};
use crate::{sys, Result};
use std::ptr;

/// Something that a build of the library may lack.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Feature {
    pub name: String,
    pub available: bool,
    /// Why it is not available; empty when it is.
    pub reason: String,
}

/// The library's release, such as "0.3.0".
pub fn version() -> &'static str {
    // SAFETY: the text is the library's, which is never unloaded.
    unsafe { terminated(sys::rl_version_string()) }
}

/// The library's version of the interface: major and minor.
pub fn abi_version() -> (u32, u32) {
    // SAFETY: the function has no conditions.
    let packed = unsafe { sys::rl_abi_version() };
    (packed >> 16, packed & 0xffff)
}

/// How the library was built, as lines "name=value".
pub fn build_info() -> Result<String> {
    // SAFETY: the result parameter is given by the macro.
    unsafe { object_of!(Bytes, rl_build_info()) }.map(|bytes| bytes.to_text())
}

/// A feature by name.
pub fn feature(name: &str) -> Result<Feature> {
    let (mut available, mut reason) = (0, ptr::null());
    // SAFETY: the texts live during the call, and the reason is the library's.
    unsafe {
        call!(rl_feature(name.as_ptr().cast(), name.len(), &mut available, &mut reason))?;
        let reason = terminated(reason).to_string();
        Ok(Feature { name: name.to_string(), available: available != 0, reason })
    }
}

/// All features.
pub fn features() -> Result<Vec<Feature>> {
    // SAFETY: the names are the library's; NULL ends them.
    let names =
        (0..).map(|i| unsafe { sys::rl_feature_name(i) }).take_while(|name| !name.is_null());
    names.map(|name| feature(unsafe { terminated(name) })).collect()
}

/// A GPU of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    pub name: String,
    pub memory_bytes: u64,
    /// Major and minor number.
    pub architecture: (i32, i32),
}

/// The GPUs that `runtime.device_index` counts; none where the feature "cuda" is not available.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    // SAFETY: the results are given by the macros, and the names are the library's.
    unsafe {
        let device = |i| {
            let info = struct_of!(rl_device_info, rl_device_info_init, rl_device_get(i))?;
            Ok(DeviceInfo {
                name: terminated(info.name).to_string(),
                memory_bytes: info.memory_bytes,
                architecture: (info.architecture_major, info.architecture_minor),
            })
        };
        (0..value_of!(0, rl_device_count())?).map(device).collect()
    }
}

/// The value of an integer constant of `rl.h` by name.
pub fn constant(name: &str) -> Result<i64> {
    // SAFETY: the text lives during the call.
    unsafe { value_of!(0, rl_constant(name.as_ptr().cast(), name.len())) }
}
