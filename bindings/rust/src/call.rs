// SPDX-License-Identifier: MIT OR Apache-2.0
//! Native functions described at run time, for the pool that runs blocking calls.

use crate::error::{check, Error, Result};
use quoit_sys as sys;
use std::ffi::CString;
use std::ptr::null;

/// Most arguments of a call.
pub(crate) const ARGS_MAX: usize = sys::QUOIT_CALL_ARGS_MAX as usize;

/// A call of any C function. Making one is unsafe, since nothing but the caller knows whether the description is true.
#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) function: u64,
    pub(crate) returns: u32,
    pub(crate) nargs: u32,
    pub(crate) types: [u8; ARGS_MAX],
    pub(crate) args: [u64; ARGS_MAX],
}

/// Types that a native function may take and return.
pub trait Native: sealed::Sealed + Copy {
    #[doc(hidden)]
    const TYPE: u32;
    #[doc(hidden)]
    fn to_bits(self) -> u64;
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! native_int {
    ($($type:ty => $number:ident),*) => {$(
        impl sealed::Sealed for $type {}
        impl Native for $type {
            const TYPE: u32 = sys::$number;
            fn to_bits(self) -> u64 {
                // Widens by sign or zero, as the library wants it.
                self as i64 as u64
            }
            fn from_bits(bits: u64) -> $type {
                bits as $type
            }
        }
    )*};
}

native_int! {
    i8 => QUOIT_TYPE_I8, u8 => QUOIT_TYPE_U8, i16 => QUOIT_TYPE_I16, u16 => QUOIT_TYPE_U16, i32 => QUOIT_TYPE_I32,
    u32 => QUOIT_TYPE_U32, i64 => QUOIT_TYPE_I64, u64 => QUOIT_TYPE_U64
}

impl sealed::Sealed for f32 {}
impl Native for f32 {
    const TYPE: u32 = sys::QUOIT_TYPE_FLOAT;
    fn to_bits(self) -> u64 {
        u64::from(f32::to_bits(self))
    }
    fn from_bits(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }
}

impl sealed::Sealed for f64 {}
impl Native for f64 {
    const TYPE: u32 = sys::QUOIT_TYPE_DOUBLE;
    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }
    fn from_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
}

impl sealed::Sealed for () {}
impl Native for () {
    const TYPE: u32 = sys::QUOIT_TYPE_VOID;
    fn to_bits(self) -> u64 {
        0
    }
    fn from_bits(_: u64) {}
}

impl<T> sealed::Sealed for *const T {}
impl<T> Native for *const T {
    const TYPE: u32 = sys::QUOIT_TYPE_POINTER;
    fn to_bits(self) -> u64 {
        self.expose_provenance() as u64
    }
    fn from_bits(bits: u64) -> *const T {
        std::ptr::with_exposed_provenance(bits as usize)
    }
}

impl<T> sealed::Sealed for *mut T {}
impl<T> Native for *mut T {
    const TYPE: u32 = sys::QUOIT_TYPE_POINTER;
    fn to_bits(self) -> u64 {
        self.expose_provenance() as u64
    }
    fn from_bits(bits: u64) -> *mut T {
        std::ptr::with_exposed_provenance_mut(bits as usize)
    }
}

/// The bits of a native return value, as the type it has.
pub fn value_of<R: Native>(bits: u64) -> R {
    R::from_bits(bits)
}

impl Call {
    /// A call of the function at this address that returns an `R`.
    ///
    /// # Safety
    /// The function must exist, take exactly the arguments that [`Call::arg`] then adds, return an `R`, and be sound to
    /// call with them on another thread. Memory that its arguments point at must stay valid until the call's event.
    pub unsafe fn new<R: Native>(function: u64) -> Call {
        Call { function, returns: R::TYPE, nargs: 0, types: [0; ARGS_MAX], args: [0; ARGS_MAX] }
    }

    /// Adds an argument; a call has 16 at most.
    pub fn arg<A: Native>(mut self, value: A) -> Call {
        let index = self.nargs as usize;
        assert!(index < ARGS_MAX, "a native call has at most {ARGS_MAX} arguments");
        self.types[index] = A::TYPE as u8;
        self.args[index] = value.to_bits();
        self.nargs += 1;
        self
    }
}

/// The address of a symbol in a shared library that is opened with `dlopen`, or in the process itself. The library stays
/// loaded.
pub fn symbol(library: Option<&str>, name: &str) -> Result<u64> {
    let library = library.map(CString::new).transpose().map_err(|_| Error::ARGUMENT)?;
    let name = CString::new(name).map_err(|_| Error::ARGUMENT)?;
    let path = library.as_ref().map_or(null(), |text| text.as_ptr());
    let mut address = 0;
    // SAFETY: both texts end with NUL and are not kept; address takes the result.
    check(unsafe { sys::quoit_symbol(path, name.as_ptr(), &mut address) })?;
    Ok(address)
}
