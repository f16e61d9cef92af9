//! The memory of a run before anything of it is allocated.
use crate::options::handle_or_null;
use crate::text::{terminated, Bytes};
use crate::{sys, Device, Dtype, Options, PlanKind, Result, Runtime, Use};

handle!(
    /// What a run will need, from options and the header of `model.path` alone.
    Plan,
    rl_plan,
    rl_plan_release
);

returned!(
    /// Totals of a plan, and the sizes that it chose.
    PlanInfo = rl_plan_info {
        /// `arena_bytes` + `baseline_bytes`: what the budget bounds.
        total_bytes: u64,
        /// All arenas, exact.
        arena_bytes: u64,
        /// An estimate of memory outside arenas.
        baseline_bytes: u64,
        /// 0: no limit.
        budget_bytes: u64,
        /// Tokens of the longest sequence.
        max_model_len: i64,
        /// Rows of a training micro-batch; 0 without a trainer and forwards.
        max_tokens: i64,
        /// Blocks in the KV pool of each engine; 0 without one.
        kv_blocks: i64,
        threads: i64,
        /// Of the computation.
        dtype: Dtype,
    }
);

/// An arena, or a part of the arena that rollout and training share.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanItem {
    pub name: String,
    pub phase: String,
    pub bytes: u64,
    pub kind: PlanKind,
    /// Whose memory it is.
    pub device: Device,
    pub device_index: i32,
}

impl Plan {
    pub fn new(options: &Options, usage: Use) -> Result<Self> {
        // SAFETY: options are only read.
        unsafe { object_of!(Self, rl_plan_create(options.as_ptr(), usage.raw())) }
    }

    /// The model is read through the files of a runtime; without options those of the runtime hold.
    pub fn hosted<'a>(
        runtime: &Runtime,
        options: impl Into<Option<&'a Options>>,
        usage: Use,
    ) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: options are copied.
        unsafe { object_of!(Self, rl_plan_create_hosted(runtime.as_ptr(), options, usage.raw())) }
    }

    pub fn info(&self) -> Result<PlanInfo> {
        // SAFETY: the handle is this object's.
        unsafe { struct_of!(rl_plan_info, rl_plan_info_init, rl_plan_get_info(self.as_ptr())) }
            .map(|raw| PlanInfo::from_raw(&raw))
    }

    /// A copy of the options that the plan was made for.
    pub fn options(&self) -> Result<Options> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Options, rl_plan_options(self.as_ptr())) }
    }

    /// The items, arenas first.
    pub fn items(&self) -> Result<Vec<PlanItem>> {
        // SAFETY: texts are copied while the plan lives.
        unsafe {
            let plan = self.as_ptr();
            let item = |i| {
                let raw = struct_of!(rl_plan_item, rl_plan_item_init, rl_plan_at(plan, i))?;
                Ok(PlanItem {
                    name: terminated(raw.name).to_string(),
                    phase: terminated(raw.phase).to_string(),
                    bytes: raw.bytes,
                    kind: PlanKind::from_raw(raw.kind),
                    device: Device::from_raw(raw.device),
                    device_index: raw.device_index,
                })
            };
            (0..sys::rl_plan_count(plan)).map(item).collect()
        }
    }

    /// The plan as a table for people.
    pub fn text(&self) -> Result<String> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Bytes, rl_plan_text(self.as_ptr())) }.map(|text| text.to_text())
    }
}
