//! Arrays with a shape: weights, what samples hold, hidden states, and arrays of the host.
use crate::dlpack::{Dlpack, Element};
use crate::text::slice;
use crate::{sys, Device, Dtype, Error, Result, Runtime, Status};
use std::os::raw::c_void;
use std::ptr;

handle!(
    /// An array that keeps alive what its memory belongs to.
    Tensor,
    rl_tensor,
    rl_tensor_release
);

/// Shape and type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorInfo<'a> {
    pub shape: &'a [i64],
    /// In elements.
    pub strides: &'a [i64],
    pub num_elements: u64,
    pub dtype: Dtype,
    pub device: Device,
    pub device_index: i32,
    pub read_only: bool,
}

/// A stream of a GPU, as CUDA's runtime has them: [`Stream::LEGACY`] and [`Stream::PER_THREAD`] are
/// its default streams, and other values addresses. With [`Stream::NONE`] values are there before
/// and after a call. The library refuses what is no stream of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(usize);

impl Stream {
    pub const NONE: Stream = Stream(0);
    pub const LEGACY: Stream = Stream(1);
    pub const PER_THREAD: Stream = Stream(2);

    /// The value of a `cudaStream_t`.
    pub const fn from_raw(stream: usize) -> Self {
        Self(stream)
    }

    pub(crate) fn as_raw(self) -> *mut c_void {
        self.0 as *mut c_void
    }
}

/// Where the values of a tensor are wanted, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    pub device: Device,
    pub device_index: i32,
    /// Of the device, behind whose work they are there.
    pub stream: Stream,
}

impl Place {
    /// The memory of the host.
    pub const HOST: Place = Place { device: Device::Cpu, device_index: 0, stream: Stream::NONE };

    /// The memory of a GPU.
    pub const fn gpu(device_index: i32, stream: Stream) -> Self {
        Place { device: Device::Cuda, device_index, stream }
    }

    pub(crate) fn request(self, flags: u64) -> sys::rl_tensor_request {
        // SAFETY: the function writes the struct that it is given.
        let mut request = unsafe { initial!(rl_tensor_request, rl_tensor_request_init) };
        request.flags = flags;
        request.device = self.device.raw();
        request.device_index = self.device_index;
        request.stream = self.stream.as_raw();
        request
    }
}

impl Tensor {
    /// A tensor of another library or of the host; a copy of it with `copy`, and without where it
    /// lies. It is ended by its deleter also when this fails.
    pub fn from_dlpack(runtime: &Runtime, tensor: Dlpack, copy: bool) -> Result<Self> {
        Self::from_dlpack_behind(runtime, tensor, copy, Stream::NONE)
    }

    /// The same for a tensor of a GPU whose values are there behind the stream's work.
    pub fn from_dlpack_behind(
        runtime: &Runtime,
        tensor: Dlpack,
        copy: bool,
        stream: Stream,
    ) -> Result<Self> {
        let (runtime, flags) = (runtime.as_ptr(), if copy { sys::RL_TENSOR_COPY } else { 0 });
        // SAFETY: the tensor is whole, and the library's from here on.
        unsafe {
            let (raw, stream) = (tensor.into_raw().cast(), stream.as_raw());
            object_of!(Self, rl_tensor_import_dlpack(runtime, raw, stream, flags))
        }
    }

    /// The tensor for another library, without a copy.
    pub fn to_dlpack(&self) -> Result<Dlpack> {
        self.to_dlpack_behind(Stream::NONE)
    }

    /// The same for a consumer whose later work in the stream of a GPU reads the values.
    pub fn to_dlpack_behind(&self, stream: Stream) -> Result<Dlpack> {
        let (tensor, stream) = (self.as_ptr(), stream.as_raw());
        // SAFETY: the handle is this object's, and what it gives is the caller's.
        let raw = unsafe {
            value_of!(ptr::null_mut(), rl_tensor_export_dlpack(tensor, stream))
                .map(|raw: *mut sys::DLManagedTensorVersioned| Dlpack::from_raw(raw.cast()))
        }?;
        raw.ok_or_else(|| Error::of_host(Status::Internal, "", "the library gave no tensor"))
    }

    /// Another object of the same tensor.
    pub fn try_clone(&self) -> Result<Self> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Self, rl_tensor_retain(self.as_ptr())) }
    }

    pub fn info(&self) -> Result<TensorInfo<'_>> {
        let raw = self.raw_info()?;
        // SAFETY: the arrays are the tensor's.
        let numbers = |array| unsafe { slice(array, raw.num_dims as usize) };
        Ok(TensorInfo {
            shape: numbers(raw.shape),
            strides: numbers(raw.strides),
            num_elements: raw.num_elements,
            dtype: Dtype::from_raw(raw.dtype),
            device: Device::from_raw(raw.device),
            device_index: raw.device_index,
            read_only: raw.read_only != 0,
        })
    }

    /// The elements where they lie, of a tensor that is row-major.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        let (info, data) = (self.info()?, self.raw_info()?.data.cast::<T>());
        let unfit = |status, what: &str| {
            Err(Error::of_host(status, "tensor", &format!("{what}: {info:?}")))
        };
        if info.dtype != T::DTYPE {
            return unfit(Status::WrongType, &format!("elements are not {:?}", T::DTYPE));
        }
        if info.device != Device::Cpu {
            return unfit(Status::Unsupported, "elements are not in memory of the host");
        }
        if !is_row_major(&info) {
            return unfit(Status::Unsupported, "elements are not in row-major order");
        }
        if data as usize % std::mem::align_of::<T>() != 0 {
            return unfit(Status::Unsupported, "elements are not aligned");
        }
        // SAFETY: the elements are of T, one behind another, and nothing writes to them: the safe
        // functions give memory that nobody writes to, the others have their caller see to it.
        Ok(unsafe { slice(data, info.num_elements as usize) })
    }

    /// Writes the elements of a row-major fp32 tensor that may be written to.
    ///
    /// # Safety
    /// Nothing else reads or writes them meanwhile.
    pub(crate) unsafe fn fill(&self, values: &[f32]) -> Result<()> {
        let count = self.as_slice::<f32>()?.len();
        let info = self.raw_info()?;
        if info.read_only != 0 || count != values.len() {
            let text = format!("{} values for {} elements", values.len(), count);
            return Err(Error::of_host(Status::InvalidArgument, "values", &text));
        }
        std::ptr::copy(values.as_ptr(), info.data as *mut f32, count);
        Ok(())
    }

    fn raw_info(&self) -> Result<sys::rl_tensor_info> {
        let tensor = self.as_ptr();
        // SAFETY: the handle is this object's.
        unsafe { struct_of!(rl_tensor_info, rl_tensor_info_init, rl_tensor_get_info(tensor)) }
    }
}

fn is_row_major(info: &TensorInfo<'_>) -> bool {
    let mut expected = 1;
    let dims = info.shape.iter().zip(info.strides).rev();
    info.num_elements == 0
        || dims.filter(|(&extent, _)| extent != 1).all(|(&extent, &stride)| {
            let right = stride == expected;
            expected *= extent;
            right
        })
}
