// SPDX-License-Identifier: GPL-2.0
//! Device attributes: one value per file.

use crate::glue::AssertSync;
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::from_result,
    page::PAGE_SIZE,
    prelude::*,
    str::Formatter, //
};

/// One sysfs attribute that can be read by all and written by root.
pub(crate) trait Attribute {
    /// File name.
    const NAME: &'static CStr;
    /// Writes the value, without a newline.
    fn show(out: &mut Formatter<'_>) -> Result;
    /// Takes a new value, stripped of white space around it.
    fn store(text: &str) -> Result;
}

struct VTable<A>(PhantomData<A>);

impl<A: Attribute> VTable<A> {
    /// # Safety
    ///
    /// `buf` is a page, as sysfs guarantees.
    unsafe extern "C" fn show(
        _dev: *mut bindings::device,
        _attr: *mut bindings::device_attribute,
        buf: *mut c_char,
    ) -> isize {
        from_result(|| {
            use kernel::fmt::Write as _;
            // SAFETY: sysfs passes a zeroed buffer of one page.
            let page = unsafe { &mut *buf.cast::<[u8; PAGE_SIZE]>() };
            let mut out = Formatter::new(page);
            A::show(&mut out)?;
            out.write_str("\n")?;
            Ok(out.bytes_written() as isize)
        })
    }

    /// # Safety
    ///
    /// `buf` is valid for `count` bytes.
    unsafe extern "C" fn store(
        _dev: *mut bindings::device,
        _attr: *mut bindings::device_attribute,
        buf: *const c_char,
        count: usize,
    ) -> isize {
        from_result(|| {
            // SAFETY: By the caller.
            let bytes = unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), count) };
            let text = core::str::from_utf8(bytes).map_err(|_| EINVAL)?;
            A::store(text.trim())?;
            Ok(count as isize)
        })
    }
}

/// Builds the C attribute of `A`.
pub(crate) const fn device_attribute<A: Attribute>() -> AssertSync<bindings::device_attribute> {
    let mut a: bindings::device_attribute = pin_init::zeroed();
    a.attr.name = kernel::str::as_char_ptr_in_const_context(A::NAME);
    a.attr.mode = 0o644;
    a.__bindgen_anon_1.show = Some(VTable::<A>::show);
    a.__bindgen_anon_2.store = Some(VTable::<A>::store);
    AssertSync(a)
}

/// Builds the groups of a device with exactly these attributes: `groups!(fn name: A, B, C)`.
macro_rules! groups {
    ($vis:vis fn $name:ident: $($attribute:ty),+ $(,)?) => {
        /// The attribute groups, null-terminated.
        $vis fn $name() -> *mut *const kernel::bindings::attribute_group {
            use crate::glue::sysfs::device_attribute;
            use crate::glue::AssertSync;
            use kernel::bindings::{attribute, attribute_group, device_attribute as raw};

            const COUNT: usize = [$(stringify!($attribute)),+].len();
            static ATTRIBUTES: [AssertSync<raw>; COUNT] =
                [$(device_attribute::<$attribute>()),+];
            static POINTERS: AssertSync<[*mut attribute; COUNT + 1]> = AssertSync({
                let mut pointers = [core::ptr::null_mut(); COUNT + 1];
                let mut i = 0;
                while i < COUNT {
                    pointers[i] = core::ptr::addr_of!(ATTRIBUTES[i].0.attr).cast_mut();
                    i += 1;
                }
                pointers
            });
            static GROUP: AssertSync<attribute_group> = AssertSync({
                let mut group: attribute_group = pin_init::zeroed();
                group.__bindgen_anon_2.attrs = core::ptr::addr_of!(POINTERS.0).cast_mut().cast();
                group
            });
            static GROUPS: AssertSync<[*const attribute_group; 2]> =
                AssertSync([core::ptr::addr_of!(GROUP.0), core::ptr::null()]);
            core::ptr::addr_of!(GROUPS.0).cast_mut().cast()
        }
    };
}
pub(crate) use groups;
