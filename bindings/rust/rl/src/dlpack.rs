//! Tensors on their way from one library to another, as DLPack 1.x lays them out in memory.
use crate::{sys, Dtype, Error, Result, Status};
use std::os::raw::c_void;
use std::ptr::{self, NonNull};

/// A type that elements of a tensor may have.
///
/// # Safety
/// A value is in memory what `DTYPE` and the codes of DLPack say, and every pattern of bits is one.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    const DTYPE: Dtype;
    /// Type code and bits of DLPack.
    const DLPACK: (u8, u8);
}

// SAFETY: an IEEE single.
unsafe impl Element for f32 {
    const DTYPE: Dtype = Dtype::F32;
    const DLPACK: (u8, u8) = (2, 32);
}

// SAFETY: a signed integer.
unsafe impl Element for i32 {
    const DTYPE: Dtype = Dtype::I32;
    const DLPACK: (u8, u8) = (0, 32);
}

/// The upper half of an IEEE single.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl From<Bf16> for f32 {
    fn from(value: Bf16) -> f32 {
        f32::from_bits(u32::from(value.0) << 16)
    }
}

// SAFETY: its bits are those of a bfloat16.
unsafe impl Element for Bf16 {
    const DTYPE: Dtype = Dtype::Bf16;
    const DLPACK: (u8, u8) = (4, 16);
}

/// A tensor that nobody has taken yet. Dropped, it is ended by its deleter; who takes it by
/// [`Dlpack::into_raw`] calls that once.
#[derive(Debug)]
pub struct Dlpack {
    raw: NonNull<sys::DLManagedTensorVersioned>,
}

type Deleter = unsafe extern "C" fn(*mut sys::DLManagedTensorVersioned);

#[repr(C)]
struct Managed {
    major: u32,
    minor: u32,
    manager_ctx: *mut c_void,
    deleter: Option<Deleter>,
    flags: u64,
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// A tensor of this host and the arrays that it points to.
struct Owned<T> {
    managed: Managed,
    values: Vec<T>,
    shape: Vec<i64>,
}

impl Dlpack {
    /// Takes a `DLManagedTensorVersioned` of another library over; None for NULL.
    ///
    /// # Safety
    /// It is whole and the caller's to end, which its deleter does on any thread. Nothing writes to
    /// its memory before that.
    pub unsafe fn from_raw(raw: *mut c_void) -> Option<Self> {
        NonNull::new(raw.cast()).map(|raw| Self { raw })
    }

    /// Memory of the host, row-major, without a copy. It is dropped with the last that reads it.
    pub fn from_vec<T: Element>(values: Vec<T>, shape: &[i64]) -> Result<Self> {
        let count = shape.iter().try_fold(1i64, |all, &extent| all.checked_mul(extent));
        if count.map(usize::try_from) != Some(Ok(values.len())) || shape.iter().any(|&n| n < 0) {
            let text = format!("shape {shape:?} does not have {} elements", values.len());
            return Err(Error::of_host(Status::InvalidArgument, "shape", &text));
        }
        let ndim = i32::try_from(shape.len()).unwrap_or(i32::MAX); // which the library refuses
        let (code, bits) = T::DLPACK;
        let mut owned = Box::new(Owned { managed: empty(), values, shape: shape.to_vec() });
        owned.managed = Managed {
            deleter: Some(drop_owned::<T>),
            data: owned.values.as_mut_ptr().cast(),
            ndim,
            code,
            bits,
            shape: owned.shape.as_mut_ptr(),
            ..empty()
        };
        let owned = Box::into_raw(owned);
        // SAFETY: the box lives until its deleter is called, and is nobody else's.
        unsafe {
            (*owned).managed.manager_ctx = owned.cast();
            Ok(Self { raw: NonNull::new_unchecked(ptr::addr_of_mut!((*owned).managed).cast()) })
        }
    }

    /// The `DLManagedTensorVersioned`, which stays this object's.
    pub fn as_raw(&self) -> *mut c_void {
        self.raw.as_ptr().cast()
    }

    /// The same, whose deleter is the caller's to call. What it writes to memory that is not
    /// flagged read-only, nobody may read as a slice meanwhile.
    pub fn into_raw(self) -> *mut c_void {
        let raw = self.as_raw();
        std::mem::forget(self);
        raw
    }
}

impl Drop for Dlpack {
    fn drop(&mut self) {
        let raw = self.raw.as_ptr();
        // SAFETY: the tensor is whole and this object's, and the deleter is where every version of
        // DLPack has it.
        unsafe {
            if let Some(end) = (*raw.cast::<Managed>()).deleter {
                end(raw)
            }
        }
    }
}

// SAFETY: the deleter may be called on any thread, and only `into_raw` gives the memory away.
unsafe impl Send for Dlpack {}
// SAFETY: shared, it has an address and nothing else.
unsafe impl Sync for Dlpack {}

/// A tensor of DLPack 1.0 in the memory of the CPU, with nothing in it.
fn empty() -> Managed {
    Managed {
        major: 1,
        minor: 0,
        manager_ctx: ptr::null_mut(),
        deleter: None,
        flags: 0,
        data: ptr::null_mut(),
        device_type: 1,
        device_id: 0,
        ndim: 0,
        code: 0,
        bits: 0,
        lanes: 1,
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    }
}

/// # Safety
/// `raw` is the tensor of an `Owned<T>` that was made into a pointer.
unsafe extern "C" fn drop_owned<T>(raw: *mut sys::DLManagedTensorVersioned) {
    drop(Box::from_raw((*raw.cast::<Managed>()).manager_ctx.cast::<Owned<T>>()));
}
