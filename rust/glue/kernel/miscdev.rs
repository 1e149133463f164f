// SPDX-License-Identifier: GPL-2.0
//! A misc device with `poll`, a module owner, a mode and sysfs groups, on top of [`MiscDevice`].

use super::module::this_module;
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::to_result,
    fs::File,
    miscdevice::{
        MiscDevice,
        MiscDeviceOptions, //
    },
    prelude::*,
    sync::poll::PollTable,
    types::{
        ForeignOwnable,
        Opaque, //
    },
};

/// The answer of `poll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Nothing to do.
    Idle,
    /// Something to read.
    Readable,
    /// The file is of no use.
    #[cfg(zernel_core)]
    Failed,
}

impl Readiness {
    fn mask(self) -> bindings::__poll_t {
        match self {
            Self::Idle => 0,
            Self::Readable => bindings::POLLIN | bindings::POLLRDNORM,
            #[cfg(zernel_core)]
            Self::Failed => bindings::POLLERR,
        }
    }
}

/// Attribute groups, null-terminated, or null.
pub(crate) type Groups = *mut *const bindings::attribute_group;

/// A [`MiscDevice`] with the operations that that trait lacks.
pub(crate) trait Device: MiscDevice {
    /// Name of the node.
    const NAME: &'static CStr;
    /// Mode of the node.
    const MODE: u16;

    /// Attribute groups of the device, null-terminated, or null.
    fn groups() -> Groups {
        core::ptr::null_mut()
    }

    /// Registers the caller with `table` and returns the events that the file is ready for.
    fn poll(
        device: <Self::Ptr as ForeignOwnable>::Borrowed<'_>,
        file: &File,
        table: PollTable<'_>,
    ) -> Readiness;
}

struct VTable<T>(PhantomData<T>);

impl<T: Device> VTable<T> {
    const FOPS: bindings::file_operations = {
        let raw = MiscDeviceOptions { name: T::NAME }.into_raw::<T>();
        // SAFETY: `into_raw` sets `fops` to a static table.
        let base = unsafe { *raw.fops };
        bindings::file_operations {
            owner: this_module(),
            poll: Some(Self::poll),
            ..base
        }
    };

    /// # Safety
    ///
    /// Called by the VFS for a file opened through [`Registration`].
    unsafe extern "C" fn poll(
        file: *mut bindings::file,
        wait: *mut bindings::poll_table_struct,
    ) -> bindings::__poll_t {
        // SAFETY: `open` stored the foreign pointer and `release` has not run.
        let device = unsafe { <T::Ptr as ForeignOwnable>::borrow((*file).private_data) };
        // SAFETY: The VFS holds a reference for the duration of the call.
        let file = unsafe { File::from_raw_file(file) };
        // SAFETY: `wait` is null or valid for this call.
        T::poll(device, file, unsafe { PollTable::from_raw(wait) }).mask()
    }
}

/// True if a read must not wait. (`RWF_NOWAIT` is refused by the VFS for such files.)
#[cfg(zernel_core)]
pub(crate) fn is_nonblocking<T: ForeignOwnable>(kiocb: &kernel::fs::Kiocb<'_, T>) -> bool {
    // SAFETY: The kiocb and its file are valid while we have the `Kiocb`.
    unsafe { (*(*kiocb.as_raw()).ki_filp).f_flags & bindings::O_NONBLOCK != 0 }
}

/// True if a file is open for writing.
#[cfg(zernel_core)]
pub(crate) fn is_writable(file: &File) -> bool {
    use kernel::fs::file::flags;
    matches!(
        file.flags() & flags::O_ACCMODE,
        flags::O_WRONLY | flags::O_RDWR
    )
}

/// Registration of a [`Device`].
///
/// # Invariants
///
/// `inner` is registered with `misc_register()` until this is dropped.
#[repr(transparent)]
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<T> {
    #[pin]
    inner: Opaque<bindings::miscdevice>,
    _t: PhantomData<T>,
}

// SAFETY: Deregistration may happen on any thread.
unsafe impl<T> Send for Registration<T> {}
// SAFETY: No `&self` method mutates.
unsafe impl<T> Sync for Registration<T> {}

impl<T: Device + 'static> Registration<T> {
    /// Registers the device.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            inner <- Opaque::try_ffi_init(move |slot: *mut bindings::miscdevice| {
                let mut raw = MiscDeviceOptions { name: T::NAME }.into_raw::<T>();
                raw.fops = const { &VTable::<T>::FOPS };
                raw.groups = T::groups();
                raw.mode = T::MODE;
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(raw) };
                // INVARIANT: Registered if this succeeds, and pinned until `drop`.
                // SAFETY: Initialised above.
                to_result(unsafe { bindings::misc_register(slot) })
            }),
            _t: PhantomData,
        })
    }
}

#[pinned_drop]
impl<T> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered by the type invariant.
        unsafe { bindings::misc_deregister(self.inner.get()) };
    }
}
