//! A list of samples.
use crate::{sys, Result, Sample, SampleArray, Tensor};

handle!(
    /// Samples that an engine drew or a buffer gave. Samples of it borrow from it.
    Batch,
    rl_batch,
    rl_batch_release
);

impl Batch {
    pub fn len(&self) -> usize {
        // SAFETY: the handle is this object's.
        unsafe { sys::rl_batch_count(self.as_ptr()) }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sample `index`, whose texts are empty: [`crate::Model::decode`] makes them.
    pub fn sample(&self, index: usize) -> Result<Sample<'_>> {
        let batch = self.as_ptr();
        // SAFETY: the arrays are the batch's; what would move them needs `&mut self`.
        unsafe {
            let raw =
                struct_of!(rl_sample_view, rl_sample_view_init, rl_batch_sample(batch, index))?;
            Sample::from_raw(&raw)
        }
    }

    /// All samples.
    pub fn samples(&self) -> Result<Vec<Sample<'_>>> {
        (0..self.len()).map(|i| self.sample(i)).collect()
    }

    /// An array of sample `index`, where it lies. It never changes, and outlives the batch.
    pub fn tensor(&self, index: usize, array: SampleArray) -> Result<Tensor> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Tensor, rl_batch_tensor(self.as_ptr(), index, array.raw())) }
    }

    /// Sets the reward of sample `index`, replacing an earlier one. Samples taken before show the
    /// earlier one.
    pub fn set_reward(&self, index: usize, reward: f64) -> Result<()> {
        // SAFETY: a reward is copied into the views, so none of them changes.
        unsafe { call!(rl_batch_set_reward(self.as_ptr(), index, reward)) }
    }

    /// Sets the kinds of reward beside the reward of sample `index`. Samples taken before end,
    /// hence `&mut`.
    pub fn set_reward_parts(&mut self, index: usize, parts: &[f64]) -> Result<()> {
        let (data, len) = (parts.as_ptr(), parts.len());
        // SAFETY: no sample borrows from the batch.
        unsafe { call!(rl_batch_set_reward_parts(self.as_ptr(), index, data, len)) }
    }
}
