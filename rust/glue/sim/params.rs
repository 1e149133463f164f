// SPDX-License-Identifier: GPL-2.0
//! Module parameters.

use kernel::{
    prelude::*,
    str::CStr, //
};

/// As the C side has them.
#[repr(C)]
struct Raw {
    preset: *const c_char,
    gpus: c_uint,
    copy_engines: c_int,
    max_tsgs: c_uint,
    word_poll_us: c_uint,
    user_contexts: c_uint,
    user_items: c_uint,
    operation_percent: c_uint,
    lacks: *const c_char,
}

extern "C" {
    fn zernel_sim_helper_params(params: *mut Raw);
}

/// The parameters as given; not checked.
pub(crate) struct Params {
    /// Name of the model of the GPUs.
    pub(crate) preset: &'static str,
    /// GPUs.
    pub(crate) gpus: u32,
    /// Copy engines of each; -1: as in the preset.
    pub(crate) copy_engines: i32,
    /// TSGs of each.
    pub(crate) max_tsgs: u32,
    /// Interval at which words are looked at, in µs.
    pub(crate) word_poll_us: u32,
    /// Contexts of a user.
    pub(crate) user_contexts: u32,
    /// Queued items of a user.
    pub(crate) user_items: u32,
    /// Cost of provider operations, in percent.
    pub(crate) operation_percent: u32,
    /// Names of operations that are not offered.
    pub(crate) lacks: &'static str,
}

/// The text of a parameter.
///
/// # Safety
///
/// It is null or that of a parameter.
unsafe fn text(raw: *const c_char) -> Result<&'static str> {
    if raw.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: Terminated, and never changed after the module was loaded: the file in sysfs is
    // read-only.
    let text = unsafe { CStr::from_char_ptr(raw) };
    Ok(text.to_str().map_err(|_| EINVAL)?.trim())
}

impl Params {
    /// Reads them.
    pub(crate) fn get() -> Result<Self> {
        let mut raw = Raw {
            preset: core::ptr::null(),
            gpus: 0,
            copy_engines: 0,
            max_tsgs: 0,
            word_poll_us: 0,
            user_contexts: 0,
            user_items: 0,
            operation_percent: 0,
            lacks: core::ptr::null(),
        };
        // SAFETY: `raw` has the layout that the C side writes.
        unsafe { zernel_sim_helper_params(&mut raw) };
        // SAFETY: As given when the module was loaded.
        let (preset, lacks) = unsafe { (text(raw.preset)?, text(raw.lacks)?) };
        Ok(Self {
            preset,
            gpus: raw.gpus,
            copy_engines: raw.copy_engines,
            max_tsgs: raw.max_tsgs,
            word_poll_us: raw.word_poll_us,
            user_contexts: raw.user_contexts,
            user_items: raw.user_items,
            operation_percent: raw.operation_percent,
            lacks,
        })
    }
}
