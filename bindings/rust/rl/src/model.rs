//! Weights, tokenizer and chat format.
use crate::options::handle_or_null;
use crate::text::{json_text, path_text, terminated, Bytes};
use crate::{sys, Dtype, Forward, Options, Place, Result, Runtime, Tensor, TextFlags, Use};
use std::path::Path;
use std::ptr;

handle!(
    /// A model. It ends with the last object made from it.
    Model,
    rl_model,
    rl_model_destroy
);

/// Shape and abilities of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelInfo {
    pub family: &'static str,
    pub vocab: i64,
    pub hidden: i64,
    pub layers: i64,
    pub heads: i64,
    pub kv_heads: i64,
    pub head_dim: i64,
    pub ffn: i64,
    pub max_position: i64,
    pub bos_id: Option<i64>,
    pub pad_id: Option<i64>,
    pub dtype: Dtype,
    pub has_tokenizer: bool,
    pub tied_head: bool,
}

impl Model {
    /// Opens `model.path` of the options, or of those of the runtime.
    pub fn open<'a>(
        runtime: &Runtime,
        options: impl Into<Option<&'a Options>>,
        usage: Use,
    ) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: the handles live during the call, and the library keeps what it needs alive.
        unsafe { object_of!(Self, rl_model_open(runtime.as_ptr(), options, usage.raw())) }
    }

    /// Writes a directory that transformers opens; an existing one only with `replace`.
    pub fn save(&self, dir: impl AsRef<Path>, dtype: Dtype, replace: bool) -> Result<()> {
        let dir = path_text(dir.as_ref())?;
        let (text, len, flags) = (dir.as_ptr().cast(), dir.len(), save_flags(replace));
        // SAFETY: the path lives during the call.
        unsafe { call!(rl_model_save(self.as_ptr(), text, len, dtype.raw(), flags)) }
    }

    /// Text to token ids; [`TextFlags::ADD_SPECIAL`] and [`TextFlags::ALLOW_SPECIAL`] apply.
    pub fn encode(&self, text: &str, flags: TextFlags) -> Result<Vec<i32>> {
        let (data, len, flags) = (text.as_ptr().cast(), text.len(), flags.bits());
        // SAFETY: the text lives during the call.
        unsafe { object_of!(Bytes, rl_model_encode(self.as_ptr(), data, len, flags)) }
            .map(|ids| ids.to_ids())
    }

    /// Token ids to text; [`TextFlags::SKIP_SPECIAL`] applies.
    pub fn decode(&self, ids: &[i32], flags: TextFlags) -> Result<String> {
        let (data, len, flags) = (ids.as_ptr(), ids.len(), flags.bits());
        // SAFETY: the ids live during the call.
        unsafe { object_of!(Bytes, rl_model_decode(self.as_ptr(), data, len, flags)) }
            .map(|text| text.to_text())
    }

    /// Token ids of a chat of (role, content), in the model's chat format;
    /// [`TextFlags::GENERATION_PROMPT`] applies.
    pub fn encode_chat(&self, messages: &[(&str, &str)], flags: TextFlags) -> Result<Vec<i32>> {
        let message = |(role, content): &(&str, &str)| {
            format!("{{\"role\": {}, \"content\": {}}}", json_text(role), json_text(content))
        };
        let list: Vec<String> = messages.iter().map(message).collect();
        self.encode_chat_json(&format!("{{\"messages\": [{}]}}", list.join(", ")), flags)
    }

    /// The same for a chat given as one JSON object.
    pub fn encode_chat_json(&self, chat: &str, flags: TextFlags) -> Result<Vec<i32>> {
        let (data, len, flags) = (chat.as_ptr().cast(), chat.len(), flags.bits());
        // SAFETY: the text lives during the call.
        unsafe { object_of!(Bytes, rl_model_encode_chat(self.as_ptr(), data, len, flags)) }
            .map(|ids| ids.to_ids())
    }

    /// The text of such a chat.
    pub fn render_chat(&self, chat: &str, flags: TextFlags) -> Result<String> {
        let (data, len, flags) = (chat.as_ptr().cast(), chat.len(), flags.bits());
        // SAFETY: the text lives during the call.
        unsafe { object_of!(Bytes, rl_model_render_chat(self.as_ptr(), data, len, flags)) }
            .map(|text| text.to_text())
    }

    pub fn info(&self) -> Result<ModelInfo> {
        let model = self.as_ptr();
        // SAFETY: the family's name is the library's.
        unsafe {
            let raw = struct_of!(rl_model_info, rl_model_info_init, rl_model_get_info(model))?;
            Ok(ModelInfo {
                family: terminated(raw.family),
                vocab: raw.vocab,
                hidden: raw.hidden,
                layers: raw.layers,
                heads: raw.heads,
                kv_heads: raw.kv_heads,
                head_dim: raw.head_dim,
                ffn: raw.ffn,
                max_position: raw.max_position,
                bos_id: Some(raw.bos_id).filter(|id| *id >= 0),
                pad_id: Some(raw.pad_id).filter(|id| *id >= 0),
                dtype: Dtype::from_raw(raw.dtype),
                has_tokenizer: raw.has_tokenizer != 0,
                tied_head: raw.tied_head != 0,
            })
        }
    }

    /// A copy of the options that the model was opened with.
    pub fn options(&self) -> Result<Options> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Options, rl_model_options(self.as_ptr())) }
    }

    /// Ids that end an answer.
    pub fn eos_ids(&self) -> Result<Vec<i32>> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Bytes, rl_model_eos_ids(self.as_ptr())) }.map(|ids| ids.to_ids())
    }

    /// The version of the weights: 0 as loaded, one more with each publication.
    pub fn version(&self) -> Result<u64> {
        // SAFETY: the handle is this object's.
        unsafe { value_of!(0, rl_model_version(self.as_ptr())) }
    }

    /// A digest of all fp32 parameters.
    pub fn digest(&self) -> Result<u64> {
        // SAFETY: the handle is this object's.
        unsafe { value_of!(0, rl_model_digest(self.as_ptr())) }
    }

    /// The names of all weights, as in a Hugging Face directory.
    pub fn weight_names(&self) -> Result<Vec<&str>> {
        let model = self.as_ptr();
        // SAFETY: the names are the model's.
        unsafe {
            let name = |i| value_of!(ptr::null(), rl_model_weight_name(model, i));
            (0..sys::rl_model_weight_count(model)).map(|i| Ok(terminated(name(i)?))).collect()
        }
    }

    /// A copy of a weight in fp32.
    pub fn weight(&self, name: &str) -> Result<Tensor> {
        self.weight_in(Place::HOST, name)
    }

    /// The same in the memory of a place.
    pub fn weight_in(&self, place: Place, name: &str) -> Result<Tensor> {
        self.weight_tensor(place, name, sys::RL_TENSOR_COPY)
    }

    /// A weight where it lies, read-only and without a copy.
    ///
    /// # Safety
    /// While a slice of the tensor lives, no training step runs, no weights are set and no
    /// checkpoint is loaded: these write to its memory.
    pub unsafe fn lend_weight(&self, name: &str) -> Result<Tensor> {
        self.lend_weight_in(Place::HOST, name)
    }

    /// The same in the memory of a place: that of a runtime on a GPU is the GPU's, and in the
    /// host's it is a copy.
    ///
    /// # Safety
    /// As for [`Model::lend_weight`], also for what another library makes of the tensor.
    pub unsafe fn lend_weight_in(&self, place: Place, name: &str) -> Result<Tensor> {
        self.weight_tensor(place, name, 0)
    }

    fn weight_tensor(&self, place: Place, name: &str, flags: u64) -> Result<Tensor> {
        let (text, len, request) = (name.as_ptr().cast(), name.len(), place.request(flags));
        // SAFETY: name and request live during the call.
        unsafe { object_of!(Tensor, rl_model_weight(self.as_ptr(), text, len, &request)) }
    }

    /// An output of a forward of a model opened for [`Use::Forward`], as
    /// [`Trainer::forward`](crate::Trainer::forward).
    pub fn forward(&self, input: &Forward<'_>) -> Result<Tensor> {
        // SAFETY: what the input points to lives during the call.
        unsafe { object_of!(Tensor, rl_model_forward(self.as_ptr(), &input.to_raw())) }
    }

    /// Sets weights by name, all or none; their version.
    pub fn set_weights(&self, weights: &[(&str, &Tensor)]) -> Result<u64> {
        self.set_weights_as(weights, 0)
    }

    /// The same as a version that the host names.
    pub fn set_weights_as(&self, weights: &[(&str, &Tensor)], version: u64) -> Result<u64> {
        let raw_weight = |(name, tensor): &(&str, &Tensor)| {
            // SAFETY: the function writes the struct that it is given.
            let mut raw = unsafe { initial!(rl_weight, rl_weight_init) };
            (raw.name, raw.name_len) = (name.as_ptr().cast(), name.len());
            raw.tensor = tensor.as_ptr();
            raw
        };
        let raw: Vec<_> = weights.iter().map(raw_weight).collect();
        let (model, data, count) = (self.as_ptr(), raw.as_ptr(), raw.len());
        // SAFETY: names and tensors live during the call.
        unsafe { value_of!(0, rl_model_set_weights(model, data, count, ptr::null_mut(), version)) }
    }
}

/// Flags of what writes files.
pub(crate) fn save_flags(replace: bool) -> u64 {
    if replace {
        sys::RL_SAVE_REPLACE
    } else {
        0
    }
}
