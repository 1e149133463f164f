// SPDX-License-Identifier: GPL-2.0
//! The module this crate is built into.

use kernel::bindings;

/// `THIS_MODULE` of this crate.
pub(crate) const fn this_module() -> *mut bindings::module {
    // The series reach it differently.
    #[cfg(zernel_linux_7_2)]
    {
        crate::THIS_MODULE.as_ptr()
    }
    #[cfg(not(zernel_linux_7_2))]
    {
        kernel::module::this_module::<crate::LocalModule>().as_ptr()
    }
}
