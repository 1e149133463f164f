// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules, and the functions in them.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::context::Context;
use crate::driver::{self, lock};
use crate::knobs::knobs;
use crate::ptx::{Entry, Text};
use crate::space::{Kind, Owner};
use crate::status::{Result, Status};

/// A module in a context.
#[derive(Debug)]
pub(crate) struct Module {
    /// Handle of its context.
    pub(crate) context: u64,
    pub(crate) entries: Vec<Entry>,
    /// Address and bytes of each variable.
    variables: BTreeMap<String, (u64, u64)>,
    /// Handles of its functions, by name.
    functions: Mutex<BTreeMap<String, u64>>,
    /// Of a library: it is not on the GPU yet.
    pub(crate) is_late: AtomicBool,
}

/// A kernel of a module.
#[derive(Debug)]
pub(crate) struct Function {
    /// Handle of its context.
    pub(crate) context: u64,
    /// Handle of its module.
    pub(crate) module: u64,
    pub(crate) entry: Entry,
    /// Attributes that the program has set.
    pub(crate) attributes: Mutex<BTreeMap<i32, i32>>,
}

/// An image that a program loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Image {
    Text(String),
    /// Machine code, or a container of it.
    Binary,
}

impl Module {
    /// Loads an image into a context.
    pub(crate) fn load(context: &Context, image: &Image) -> Result<Self> {
        let text = match image {
            Image::Text(text) => Text::parse(text)?,
            Image::Binary => return Err(Status::NO_BINARY_FOR_GPU),
        };
        let owner = Owner {
            context: context.handle,
            device: context.device,
        };
        let mut module = Self {
            context: context.handle,
            entries: text.entries,
            variables: BTreeMap::new(),
            functions: Mutex::default(),
            is_late: AtomicBool::new(false),
        };
        for variable in text.variables {
            let length = variable.size.max(1);
            // The lock of the space is not held below.
            let range = driver::space().allocate(owner, length, knobs().memory);
            match range {
                Ok(range) => {
                    let place = (range.base, variable.size);
                    module.variables.insert(variable.name, place);
                }
                Err(error) => {
                    module.free();
                    return Err(error);
                }
            }
        }
        Ok(module)
    }

    /// Gives the memory of its variables back.
    pub(crate) fn free(&self) {
        let mut space = driver::space();
        for (base, _) in self.variables.values() {
            // It is gone with its context, at the latest.
            let _ = space.remove(*base, Kind::Device);
        }
    }

    /// Address and bytes of a variable.
    pub(crate) fn variable(&self, name: &str) -> Result<(u64, u64)> {
        self.variables.get(name).copied().ok_or(Status::NOT_FOUND)
    }

    /// The handle of a kernel, the same each time. `add` gives it one.
    pub(crate) fn function(
        &self,
        module: u64,
        name: &str,
        add: impl FnOnce(Arc<Function>) -> u64,
    ) -> Result<u64> {
        let mut functions = lock(&self.functions);
        if let Some(handle) = functions.get(name) {
            return Ok(*handle);
        }
        let entry = self.entries.iter().find(|entry| entry.name == name);
        let function = Function {
            context: self.context,
            module,
            entry: entry.cloned().ok_or(Status::NOT_FOUND)?,
            attributes: Mutex::default(),
        };
        let handle = add(Arc::new(function));
        functions.insert(name.to_owned(), handle);
        Ok(handle)
    }
}
