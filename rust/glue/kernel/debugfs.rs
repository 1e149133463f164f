// SPDX-License-Identifier: GPL-2.0
//! Read-only debugfs files, owned by the module; their text is made when they are opened.

use super::module::this_module;
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::from_result,
    fmt,
    prelude::*,
    sync::Arc, //
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
pub(crate) trait Show: Send + Sync + 'static {
    /// Writes the text.
    fn show(&self, out: &mut Text) -> Result;
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
    /// Called by the VFS for a file that is being opened, which was made with an `S` that is there
    /// as long as the file is.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        from_result(|| {
            let mut text = Text(KVVec::new());
            // SAFETY: By the caller; debugfs waits for this when the file goes.
            unsafe { &*(*inode).i_private.cast::<S>() }.show(&mut text)?;
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

/// The data of the files of a directory, kept until they are gone.
pub(crate) trait Files {
    /// Creates them.
    fn create(&self, directory: *mut bindings::dentry);
}

/// A file, and its content.
pub(crate) struct File<S: Show>(&'static CStr, Arc<S>);

impl<S: Show> File<S> {
    /// A file of this name.
    pub(crate) fn new(name: &'static CStr, content: Arc<S>) -> Self {
        Self(name, content)
    }
}

impl<S: Show> Files for File<S> {
    fn create(&self, directory: *mut bindings::dentry) {
        let content = core::ptr::from_ref::<S>(&self.1).cast_mut().cast();
        // SAFETY: The name is static; debugfs takes error pointers as parents; the file operations
        // are static, and find an `S`, which the directory keeps.
        #[cfg(CONFIG_DEBUG_FS)]
        unsafe {
            bindings::debugfs_create_file_full(
                self.0.as_char_ptr(),
                0o400,
                directory,
                content,
                core::ptr::null(),
                const { &VTable::<S>::FOPS },
            );
        }
        #[cfg(not(CONFIG_DEBUG_FS))]
        {
            let _: (*mut c_void, _, _) = (content, directory, &VTable::<S>::FOPS);
        }
    }
}

impl<A: Files, B: Files> Files for (A, B) {
    fn create(&self, directory: *mut bindings::dentry) {
        self.0.create(directory);
        self.1.create(directory);
    }
}

/// A directory with files for root alone; gone when dropped.
pub(crate) struct Directory<F: Files> {
    entry: *mut bindings::dentry,
    _files: F,
}

// SAFETY: debugfs may be changed by any thread, and the contents are `Send` and `Sync`.
unsafe impl<F: Files> Send for Directory<F> {}
// SAFETY: No `&self` method.
unsafe impl<F: Files> Sync for Directory<F> {}

impl<F: Files> Directory<F> {
    /// Creates the directory with its files. Without debugfs, or when it fails, there is just none.
    pub(crate) fn new(name: &'static CStr, files: F) -> Self {
        // SAFETY: The name is static.
        #[cfg(CONFIG_DEBUG_FS)]
        let entry =
            unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), core::ptr::null_mut()) };
        #[cfg(not(CONFIG_DEBUG_FS))]
        let entry = {
            let _ = name;
            core::ptr::null_mut()
        };
        files.create(entry);
        Self {
            entry,
            _files: files,
        }
    }
}

impl<F: Files> Drop for Directory<F> {
    fn drop(&mut self) {
        #[cfg(CONFIG_DEBUG_FS)]
        // SAFETY: From `debugfs_create_dir`; error pointers are ignored. Nobody reads the files when
        // it returns.
        unsafe {
            bindings::debugfs_remove(self.entry)
        };
    }
}
