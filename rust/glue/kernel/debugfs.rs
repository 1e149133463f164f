// SPDX-License-Identifier: GPL-2.0
//! A read-only debugfs file, owned by the module; its text is made when it is opened.

use super::module::this_module;
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::from_result,
    fmt,
    prelude::*, //
};

/// Text that grows.
pub(crate) struct Text(KVVec<u8>);

impl fmt::Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.0
            .extend_from_slice(s.as_bytes(), GFP_KERNEL)
            .map_err(|_| fmt::Error)
    }
}

/// The content of a file.
pub(crate) trait Show {
    /// Writes the text.
    fn show(out: &mut Text) -> Result;
}

struct VTable<S>(PhantomData<S>);

impl<S: Show> VTable<S> {
    const FOPS: bindings::file_operations = bindings::file_operations {
        owner: this_module(),
        open: Some(Self::open),
        read: Some(Self::read),
        llseek: Some(bindings::default_llseek),
        release: Some(Self::release),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by the VFS for a file that is being opened.
    unsafe extern "C" fn open(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        from_result(|| {
            let mut text = Text(KVVec::new());
            S::show(&mut text)?;
            let text = KBox::new(text, GFP_KERNEL)?;
            // SAFETY: `open` owns the private data.
            unsafe { (*file).private_data = KBox::into_raw(text).cast() };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Called by the VFS between `open` and `release`.
    unsafe extern "C" fn read(
        file: *mut bindings::file,
        buf: *mut c_char,
        count: usize,
        pos: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: Set by `open`.
        let text = unsafe { &*(*file).private_data.cast::<Text>() };
        // SAFETY: `buf` and `pos` are the VFS's; the text is as long as said.
        unsafe {
            bindings::simple_read_from_buffer(
                buf.cast(),
                count,
                pos,
                text.0.as_ptr().cast(),
                text.0.len(),
            )
        }
    }

    /// # Safety
    ///
    /// Called by the VFS after the last use.
    unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: Set by `open`, and nobody uses it any more.
        drop(unsafe { KBox::<Text>::from_raw((*file).private_data.cast()) });
        0
    }
}

/// A directory with one file, for root alone; gone when dropped.
pub(crate) struct Directory(*mut bindings::dentry);

// SAFETY: debugfs may be changed by any thread.
unsafe impl Send for Directory {}
// SAFETY: No `&self` method.
unsafe impl Sync for Directory {}

impl Directory {
    /// Creates `directory/file`. Without debugfs, or when it fails, there is just no file.
    pub(crate) fn new<S: Show>(directory: &'static CStr, file: &'static CStr) -> Self {
        // SAFETY: The names are static; debugfs takes error pointers as parents; the file
        // operations are static.
        #[cfg(CONFIG_DEBUG_FS)]
        unsafe {
            let parent =
                bindings::debugfs_create_dir(directory.as_char_ptr(), core::ptr::null_mut());
            bindings::debugfs_create_file_full(
                file.as_char_ptr(),
                0o400,
                parent,
                core::ptr::null_mut(),
                core::ptr::null(),
                const { &VTable::<S>::FOPS },
            );
            Self(parent)
        }
        #[cfg(not(CONFIG_DEBUG_FS))]
        {
            let _ = (directory, file, &VTable::<S>::FOPS);
            Self(core::ptr::null_mut())
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        #[cfg(CONFIG_DEBUG_FS)]
        // SAFETY: From `debugfs_create_dir`; error pointers are ignored.
        unsafe {
            bindings::debugfs_remove(self.0)
        };
    }
}
