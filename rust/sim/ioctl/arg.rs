// SPDX-License-Identifier: GPL-2.0
//! The structure of a call, and the rule for its reserved fields.

use crate::glue::abi::{
    self,
    Abi, //
};
use kernel::prelude::*;

/// The caller's structure.
#[derive(Clone, Copy)]
pub(crate) struct Arg {
    pub(crate) address: usize,
    pub(crate) size: usize,
}

impl Arg {
    /// Reads it.
    pub(crate) fn read<T: Abi>(self) -> Result<T> {
        abi::read(self.address, self.size)
    }

    /// Writes it back.
    pub(crate) fn write<T: Abi>(self, value: &T) -> Result {
        abi::write(self.address, self.size, value)
    }

    /// Reads it, lets `f` change it, writes it back.
    pub(crate) fn update<T: Abi>(self, f: impl FnOnce(&mut T) -> Result) -> Result {
        let mut value = self.read()?;
        f(&mut value)?;
        self.write(&value)
    }
}

/// Refuses a value other than zero.
pub(crate) fn must_be_zero(values: &[u32]) -> Result {
    if values.iter().any(|value| *value != 0) {
        return Err(EINVAL);
    }
    Ok(())
}
