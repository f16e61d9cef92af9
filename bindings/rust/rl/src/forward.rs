//! What a forward computes, and of what.
use crate::text::optional;
use crate::{sys, Batch, Output};
use std::ptr;

given!(
    /// The input of a forward: the samples of a batch, or one sequence of ids.
    #[derive(Clone, Debug)]
    Forward<'a> {
        output: Output,
        /// Samples, each at its own temperature; None: the sequence of ids.
        batch: Option<&'a Batch>,
        ids: &'a [i32],
        /// Of the sequence, for outputs per token.
        num_prompt: usize,
        /// Of the sequence.
        temperature: f32,
        /// Of hidden states and logits: the rows that are wanted, which count the ids of all
        /// samples; None: all of them.
        rows: Option<&'a [u64]>,
    }
);

impl<'a> Forward<'a> {
    /// An output of the samples of a batch.
    pub fn of_batch(output: Output, batch: &'a Batch) -> Self {
        Self { batch: Some(batch), ..Self::of_ids(output, &[]) }
    }

    /// An output of a sequence, whose first `num_prompt` ids are a prompt: 0 at first.
    pub fn of_ids(output: Output, ids: &'a [i32]) -> Self {
        Self { output, batch: None, ids, num_prompt: 0, temperature: 1.0, rows: None }
    }

    /// What it points to must live.
    pub(crate) fn to_raw(&self) -> sys::rl_forward {
        // SAFETY: the function writes the struct that it is given.
        let mut raw = unsafe { initial!(rl_forward, rl_forward_init) };
        raw.output = self.output.raw();
        raw.batch = self.batch.map_or(ptr::null(), |batch| batch.as_ptr() as *const _);
        (raw.ids, raw.num_ids) = (optional(self.ids), self.ids.len());
        (raw.num_prompt, raw.temperature) = (self.num_prompt, self.temperature);
        raw.rows = self.rows.map_or(ptr::null(), <[u64]>::as_ptr);
        raw.num_rows = self.rows.map_or(0, <[u64]>::len);
        raw
    }
}
