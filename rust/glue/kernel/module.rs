// SPDX-License-Identifier: GPL-2.0
//! The module this crate is built into, and references to others.

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

/// A reference that keeps a module from being unloaded.
#[cfg(zernel_core)]
pub(crate) struct Reference(*mut bindings::module);

#[cfg(zernel_core)]
impl Reference {
    /// Takes a reference, unless the module is on its way out.
    ///
    /// # Safety
    ///
    /// `module` is null (built in) or stays valid during this call.
    pub(in crate::glue) unsafe fn try_get(module: *mut bindings::module) -> Option<Self> {
        // SAFETY: By the caller; null is taken as built in.
        unsafe { bindings::try_module_get(module) }.then(|| Self(module))
    }
}

#[cfg(zernel_core)]
impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: Taken in `try_get`.
        unsafe { bindings::module_put(self.0) };
    }
}
