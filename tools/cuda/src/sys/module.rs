// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules: kernels of a context.

use std::ffi::{c_void, CStr};
use std::ptr;
use std::sync::Arc;

use super::context::Context;
use super::driver::Driver;
use super::stream::Stream;
use super::Raw;
use crate::Result;

/// A module that was loaded here. It is unloaded when it and its kernels are dropped.
#[derive(Debug, Clone)]
pub struct Module(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    driver: Arc<Driver>,
    context: Context,
    handle: usize,
}

/// A kernel.
///
/// # Invariants
///
/// Its parameters are `parameters` of 64 bits each.
#[derive(Debug, Clone)]
pub struct Function {
    module: Arc<Loaded>,
    handle: usize,
    parameters: usize,
}

/// Blocks, and threads of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks.
    pub blocks: u32,
    /// Threads of each.
    pub threads: u32,
}

impl Driver {
    /// Loads the text of kernels (PTX) into a context.
    pub fn load(self: &Arc<Self>, context: Context, text: &CStr) -> Result<Module> {
        let _entered = self.enter(context)?;
        let mut handle = ptr::null_mut();
        // SAFETY: The text ends with a zero, `handle` is valid for writes.
        let status = unsafe { (self.functions.module_load)(&mut handle, text.as_ptr().cast()) };
        self.check("cuModuleLoadData", status)?;
        Ok(Module(Arc::new(Loaded {
            driver: self.clone(),
            context,
            handle: handle as usize,
        })))
    }
}

impl Module {
    /// A kernel by its name.
    ///
    /// # Safety
    ///
    /// It has so many parameters, of 64 bits each. It does nothing but to memory whose addresses are
    /// among them.
    pub unsafe fn function(&self, name: &CStr, parameters: usize) -> Result<Function> {
        let module = &self.0;
        let _entered = module.driver.enter(module.context)?;
        let functions = &module.driver.functions;
        let mut handle = ptr::null_mut();
        // SAFETY: The name ends with a zero, `handle` is valid for writes, the module was loaded.
        let status =
            unsafe { (functions.module_function)(&mut handle, module.raw(), name.as_ptr()) };
        module.driver.check("cuModuleGetFunction", status)?;
        // INVARIANT: By the caller.
        Ok(Function {
            module: module.clone(),
            handle: handle as usize,
            parameters,
        })
    }
}

impl Loaded {
    fn raw(&self) -> Raw {
        self.handle as Raw
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // A context that is gone has taken it along.
        if let Ok(_entered) = self.driver.enter(self.context) {
            // SAFETY: It was loaded, and no function of it is left.
            let _ = unsafe { (self.driver.functions.module_unload)(self.raw()) };
        }
    }
}

impl Function {
    pub(super) fn driver(&self) -> &Driver {
        &self.module.driver
    }

    pub(super) fn raw(&self) -> Raw {
        self.handle as Raw
    }

    /// The places of its arguments, each of 64 bits.
    pub(super) fn places<const N: usize>(&self, arguments: &mut [u64; N]) -> [*mut c_void; N] {
        assert_eq!(N, self.parameters, "arguments of a kernel");
        arguments
            .each_mut()
            .map(|argument| ptr::from_mut(argument).cast::<c_void>())
    }

    /// Launches it in a stream of its context, which is that of this thread's calls.
    ///
    /// # Safety
    ///
    /// The stream is there. Addresses among the arguments are those of memory that the GPU has for as
    /// long as the kernel runs, and that it may store to.
    pub unsafe fn launch<const N: usize>(
        &self,
        grid: Grid,
        stream: Stream,
        mut arguments: [u64; N],
    ) -> Result<()> {
        let mut places = self.places(&mut arguments);
        let driver = self.driver();
        // SAFETY: The function is there while its module is. Each place is valid for a read of 64
        // bits, as many as it has parameters, which the driver does before it returns. The rest by
        // the caller.
        let status = unsafe {
            (driver.functions.launch)(
                self.raw(),
                grid.blocks,
                1,
                1,
                grid.threads,
                1,
                1,
                0,
                stream.raw(),
                places.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        driver.check("cuLaunchKernel", status)
    }
}
