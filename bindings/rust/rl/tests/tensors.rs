//! Tensors: weights out and in, arrays of samples, hidden states, and how often deleters run.
mod common;

use common::{model, options, pipeline, scored_group};
use rl::{Bf16, Dlpack, Dtype, SampleArray, Status, Tensor};
use std::os::raw::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

const NORM: &str = "model.norm.weight";

fn runtime() -> rl::Runtime {
    rl::Runtime::new(None).unwrap()
}

fn tensor<T: rl::Element>(values: Vec<T>, shape: &[i64]) -> Tensor {
    Tensor::from_dlpack(&runtime(), Dlpack::from_vec(values, shape).unwrap(), false).unwrap()
}

fn floats(tensor: &Tensor) -> &[f32] {
    tensor.as_slice().unwrap()
}

#[test]
fn array_of_the_host_is_read_where_it_lies() {
    let values = vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let address = values.as_ptr();
    let tensor = tensor(values, &[2, 3]);
    let info = tensor.info().unwrap();
    assert_eq!((info.shape, info.strides), (&[2, 3][..], &[3, 1][..]));
    assert_eq!((info.num_elements, info.dtype, info.read_only), (6, Dtype::F32, false));
    assert_eq!(info.device, rl::Device::Cpu);
    assert_eq!(floats(&tensor).as_ptr(), address);
    let other = tensor.try_clone().unwrap();
    drop(tensor);
    assert_eq!(floats(&other), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(other.as_slice::<i32>().unwrap_err().status, Status::WrongType);
}

#[test]
fn every_type_of_element_comes_back() {
    assert_eq!(tensor(vec![-7, 8], &[2]).as_slice::<i32>().unwrap(), [-7, 8]);
    let halves = tensor(vec![Bf16(0x3f80), Bf16(0xc020)], &[2, 1]);
    let back = halves.as_slice::<Bf16>().unwrap();
    assert_eq!((f32::from(back[0]), f32::from(back[1])), (1.0, -2.5));
    assert_eq!(floats(&tensor(vec![3.5f32], &[])), [3.5]);
    assert!(floats(&tensor::<f32>(vec![], &[0, 4])).is_empty());
}

#[test]
fn shape_that_does_not_fit_is_refused() {
    for shape in [&[3][..], &[-1, -2], &[i64::MAX, i64::MAX], &[]] {
        let error = Dlpack::from_vec(vec![1.0f32, 2.0], shape).unwrap_err();
        assert_eq!((error.status, error.key.as_str()), (Status::InvalidArgument, "shape"));
    }
    let deep = Dlpack::from_vec(vec![1.0f32], &[1; 65]).unwrap();
    let error = Tensor::from_dlpack(&runtime(), deep, false).unwrap_err();
    assert_eq!((error.status, error.key.as_str()), (Status::OutOfRange, "managed"));
}

#[test]
fn weights_are_copies_or_where_they_lie() {
    let options = options();
    let model = model(&options, rl::Use::Parts);
    let names = model.weight_names().unwrap();
    assert!(names.len() == 21 && names.contains(&NORM), "{names:?}");
    let copy = model.weight(NORM).unwrap();
    // SAFETY: the step below runs while there is no slice of it.
    let lent = unsafe { model.lend_weight(NORM).unwrap() };
    let before = floats(&copy).to_vec();
    assert_eq!(floats(&lent), before);
    assert_eq!((copy.info().unwrap().read_only, lent.info().unwrap().read_only), (false, true));
    let trainer = rl::Trainer::new(&model, &options).unwrap();
    let engine = rl::Engine::new(&model, &options).unwrap();
    trainer.step(&scored_group(&engine)).unwrap();
    assert_eq!(floats(&copy), before);
    assert_ne!(floats(&lent), before);
    let error = model.weight("model.norm.weigth").unwrap_err();
    assert_eq!((error.status, error.nearest[0].as_str()), (Status::NotFound, NORM));
}

#[test]
fn weights_are_set_all_or_none() {
    let model = model(&options(), rl::Use::Train);
    let twice = floats(&model.weight(NORM).unwrap()).iter().map(|x| 2.0 * x).collect::<Vec<_>>();
    let shape = [twice.len() as i64];
    let norm = tensor(twice.clone(), &shape);
    let digest = model.digest().unwrap();
    let error = model.set_weights(&[(NORM, &norm), ("lm_head.weight", &norm)]).unwrap_err();
    assert_eq!((error.status, error.key.as_str()), (Status::Incompatible, "lm_head.weight"));
    assert_eq!(model.digest().unwrap(), digest);
    assert_eq!(model.set_weights(&[(NORM, &norm)]).unwrap(), 1);
    assert_eq!(floats(&model.weight(NORM).unwrap()), twice);
    assert_eq!(model.version().unwrap(), 1);
}

#[test]
fn arrays_of_a_sample_outlive_it() {
    let engine = rl::Engine::new(&model(&options(), rl::Use::Generate), None).unwrap();
    let batch = scored_group(&engine);
    let sample = batch.sample(1).unwrap();
    let (ids, logprobs) = (sample.ids.to_vec(), sample.logprobs.to_vec());
    let id_tensor = batch.tensor(1, SampleArray::Ids).unwrap();
    let tensor = batch.tensor(1, SampleArray::Logprobs).unwrap();
    assert_eq!(id_tensor.as_slice::<i32>().unwrap().as_ptr(), sample.ids.as_ptr());
    let none = batch.tensor(1, SampleArray::TopIds).unwrap_err();
    assert_eq!(none.status, Status::NotFound);
    drop(batch);
    assert_eq!((id_tensor.as_slice::<i32>().unwrap(), floats(&tensor)), (&ids[..], &logprobs[..]));
}

#[test]
fn arrays_of_an_event_are_those_of_its_sample() {
    let (_model, pipeline) = pipeline(1);
    pipeline.start().unwrap();
    let event = pipeline.next(None).unwrap().ready().unwrap();
    let ids = event.tensor(0, SampleArray::Ids).unwrap();
    assert_eq!(ids.as_slice::<i32>().unwrap(), event.sample().unwrap().ids);
}

/// Elements of the compute type, which is the processor's.
fn values(tensor: &Tensor) -> Vec<f32> {
    match tensor.info().unwrap().dtype {
        Dtype::F32 => tensor.as_slice::<f32>().unwrap().to_vec(),
        _ => tensor.as_slice::<Bf16>().unwrap().iter().map(|x| f32::from(*x)).collect(),
    }
}

#[test]
fn hidden_states_have_a_row_for_each_id() {
    let model = model(&options(), rl::Use::Train);
    let trainer = rl::Trainer::new(&model, None).unwrap();
    let hidden = trainer.hidden(&[1, 2, 3]).unwrap();
    assert_eq!(hidden.info().unwrap().shape, [3, model.info().unwrap().hidden]);
    let first = trainer.hidden(&[1]).unwrap();
    let (all, row) = (values(&hidden), values(&first));
    assert_eq!(all[..row.len()], row); // no position sees a later one
    assert!(row.iter().any(|x| *x != 0.0));
    assert_eq!(trainer.hidden(&[-1]).unwrap_err().status, Status::OutOfRange);
}

// ---- tensors of another library ----

#[repr(C)]
struct Foreign {
    version: [u32; 2],
    count: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Foreign)>,
    flags: u64,
    data: *mut c_void,
    device: [i32; 2],
    ndim: i32,
    code_bits_lanes: [u16; 2],
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// A vector in columns of 3, whose deleter counts.
struct Producer {
    deleted: AtomicUsize,
    values: Vec<f32>,
    dims: [i64; 4],
    managed: Option<Box<Foreign>>,
}

unsafe extern "C" fn count_end(managed: *mut Foreign) {
    (*(*managed).count.cast::<AtomicUsize>()).fetch_add(1, Ordering::SeqCst);
}

impl Producer {
    fn new(major: u32) -> Box<Self> {
        let values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let deleted = AtomicUsize::new(0);
        let mut out = Box::new(Self { deleted, values, dims: [2, 3, 1, 2], managed: None });
        let dims = out.dims.as_mut_ptr();
        out.managed = Some(Box::new(Foreign {
            version: [major, 0],
            count: &out.deleted as *const AtomicUsize as *mut c_void,
            deleter: Some(count_end),
            flags: 0,
            data: out.values.as_mut_ptr().cast(),
            device: [1, 0],
            ndim: 2,
            code_bits_lanes: [u16::from_ne_bytes([2, 32]), 1],
            shape: dims,
            strides: unsafe { dims.add(2) },
            byte_offset: 0,
        }));
        out
    }

    fn give(&mut self) -> Dlpack {
        let managed: *mut Foreign = &mut **self.managed.as_mut().unwrap();
        // SAFETY: the producer outlives its tensors, and counting is for every thread.
        unsafe { Dlpack::from_raw(managed.cast()).unwrap() }
    }

    fn deleted(&self) -> usize {
        self.deleted.load(Ordering::SeqCst)
    }
}

#[test]
fn deleter_of_a_producer_runs_once_on_every_path() {
    let mut kept = Producer::new(1);
    let tensor = Tensor::from_dlpack(&runtime(), kept.give(), false).unwrap();
    assert_eq!(tensor.info().unwrap().strides, [1, 2]);
    assert_eq!(tensor.as_slice::<f32>().unwrap_err().status, Status::Unsupported);
    let other = tensor.try_clone().unwrap();
    drop(tensor);
    assert_eq!(kept.deleted(), 0);
    std::thread::spawn(move || drop(other)).join().unwrap();
    assert_eq!(kept.deleted(), 1);

    let mut copied = Producer::new(1);
    let tensor = Tensor::from_dlpack(&runtime(), copied.give(), true).unwrap();
    assert_eq!(copied.deleted(), 1);
    assert_eq!(floats(&tensor), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);

    let mut refused = Producer::new(2);
    let error = Tensor::from_dlpack(&runtime(), refused.give(), false).unwrap_err();
    assert_eq!((error.status, refused.deleted()), (Status::Incompatible, 1));

    let mut unused = Producer::new(1);
    drop(unused.give());
    assert_eq!(unused.deleted(), 1);
}

#[test]
fn export_outlives_every_object_and_ends_when_dropped() {
    let mut producer = Producer::new(1);
    let tensor = Tensor::from_dlpack(&runtime(), producer.give(), false).unwrap();
    let (first, second) = (tensor.to_dlpack().unwrap(), tensor.to_dlpack().unwrap());
    drop(tensor);
    drop(first);
    assert_eq!(producer.deleted(), 0);
    // SAFETY: it is laid out as Foreign, and lives.
    let seen = unsafe { &*second.as_raw().cast::<Foreign>() };
    assert_eq!((seen.version[0], seen.ndim, seen.flags), (1, 2, 0));
    assert_eq!(seen.data as *const f32, producer.values.as_ptr());
    let raw = second.into_raw();
    assert_eq!(producer.deleted(), 0);
    // SAFETY: into_raw gave it away.
    drop(unsafe { Dlpack::from_raw(raw) });
    assert_eq!(producer.deleted(), 1);
}
