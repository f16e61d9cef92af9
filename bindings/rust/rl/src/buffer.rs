//! Scored samples on their way to a trainer. They gather to groups by ordinal.
use crate::model::save_flags;
use crate::options::handle_or_null;
use crate::text::path_text;
use crate::{sys, Batch, Model, Options, Outcome, Result, Runtime, Sample};
use std::path::Path;
use std::ptr;

handle!(
    /// Holds samples until their groups are whole.
    Buffer,
    rl_buffer,
    rl_buffer_destroy
);

/// What a buffer file says of itself, as in `rl.h`.
pub type BufferFileInfo = sys::rl_buffer_file_info;

impl Buffer {
    pub fn new<'a>(options: impl Into<Option<&'a Options>>, max_samples: u64) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: options are copied.
        unsafe { object_of!(Self, rl_buffer_create(options, max_samples)) }
    }

    pub fn put(&self, sample: &Sample<'_>) -> Result<()> {
        let view = sample.to_raw()?;
        // SAFETY: the sample's arrays live during the call and are copied.
        unsafe { call!(rl_buffer_put(self.as_ptr(), &view)) }
    }

    /// Copies every sample of a batch, up to the first that is refused.
    pub fn put_batch(&self, batch: &Batch) -> Result<()> {
        // SAFETY: the samples are copied.
        unsafe { call!(rl_buffer_put_batch(self.as_ptr(), batch.as_ptr())) }
    }

    /// The whole groups of lowest ordinals; a timeout when no group is whole.
    pub fn take(&self, max_groups: u64) -> Result<Outcome<Batch>> {
        let mut batch = ptr::null_mut();
        // SAFETY: the handle is this object's.
        let status = unsafe { status_of!(rl_buffer_take(self.as_ptr(), max_groups, &mut batch)) }?;
        Ok(crate::error::outcome(status, || Batch::from_raw(batch)))
    }

    /// Samples held, and groups that are whole.
    pub fn count(&self) -> Result<(u64, u64)> {
        let (mut samples, mut groups) = (0, 0);
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_buffer_count(self.as_ptr(), &mut samples, &mut groups)) }?;
        Ok((samples, groups))
    }

    /// Writes every sample held to a file; an existing one only with `replace`. `model` is what
    /// training on them starts from.
    pub fn save(&self, path: impl AsRef<Path>, model: Option<&Model>, replace: bool) -> Result<()> {
        let path = path_text(path.as_ref())?;
        let (text, len, flags) = (path.as_ptr().cast(), path.len(), save_flags(replace));
        // SAFETY: the path lives during the call.
        unsafe { call!(rl_buffer_save(self.as_ptr(), text, len, model_or_null(model), flags)) }
    }

    /// Adds every sample of a file; their number. With a model, training on them must start from
    /// its weights.
    pub fn load(&self, path: impl AsRef<Path>, model: Option<&Model>) -> Result<u64> {
        let path = path_text(path.as_ref())?;
        let (text, len) = (path.as_ptr().cast(), path.len());
        // SAFETY: the path lives during the call.
        unsafe { value_of!(0, rl_buffer_load(self.as_ptr(), text, len, model_or_null(model))) }
    }

    /// From now on files are those of a runtime; None: those of the system.
    pub fn set_runtime(&self, runtime: Option<&Runtime>) -> Result<()> {
        let files = runtime.map_or(ptr::null(), |r| r.as_ptr() as *const _);
        // SAFETY: the library keeps the runtime alive.
        unsafe { call!(rl_buffer_set_runtime(self.as_ptr(), files)) }
    }

    /// Reads the beginning of a buffer file through the files of a runtime.
    pub fn hosted_file_info(runtime: &Runtime, path: impl AsRef<Path>) -> Result<BufferFileInfo> {
        let path = path_text(path.as_ref())?;
        let (text, len) = (path.as_ptr().cast(), path.len());
        // SAFETY: the path lives during the call.
        unsafe {
            struct_of!(
                rl_buffer_file_info,
                rl_buffer_file_info_init,
                rl_buffer_get_hosted_file_info(runtime.as_ptr(), text, len)
            )
        }
    }

    /// Reads the beginning of a buffer file.
    pub fn file_info(path: impl AsRef<Path>) -> Result<BufferFileInfo> {
        let path = path_text(path.as_ref())?;
        let (text, len) = (path.as_ptr().cast(), path.len());
        // SAFETY: the path lives during the call.
        unsafe {
            struct_of!(
                rl_buffer_file_info,
                rl_buffer_file_info_init,
                rl_buffer_get_file_info(text, len)
            )
        }
    }
}

fn model_or_null(model: Option<&Model>) -> *const sys::rl_model {
    model.map_or(ptr::null(), |m| m.as_ptr() as *const _)
}
