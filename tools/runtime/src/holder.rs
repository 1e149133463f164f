// SPDX-License-Identifier: MIT OR Apache-2.0
//! The holder: a kernel that keeps the GPU for its context until it is released.

use std::ffi::CStr;
use std::sync::Arc;
use std::time::Duration;

use cuda::{Context, Driver, Function, Stream};

use crate::sys::{self, Nodes};

/// Its text. The contract of its parameters is at its top.
const TEXT: &CStr =
    match CStr::from_bytes_with_nul(concat!(include_str!("holder.ptx"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the text of the holder has a zero"),
    };

const NAME: &CStr = c"zernel_holder";

/// The holder in a context.
#[derive(Debug)]
pub(crate) struct Holder(Function);

/// Addresses of the words of a slot, as the GPU sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) trigger: u64,
    pub(crate) release: u64,
    pub(crate) done: u64,
    pub(crate) held: u64,
}

impl Words {
    /// Of the slot at a place of a page, the first byte of which is at `base`.
    pub(crate) fn at(base: u64, place: u32) -> Self {
        const SLOT: u64 = 64;
        const WORD: u64 = 4;
        let slot = base + SLOT * u64::from(place);
        Self {
            trigger: slot,
            release: slot + WORD,
            done: slot + 2 * WORD,
            held: slot + 3 * WORD,
        }
    }
}

impl Holder {
    /// Loads it into a context.
    pub(crate) fn load(driver: &Arc<Driver>, context: Context) -> cuda::Result<Self> {
        let module = driver.load(context, TEXT)?;
        Ok(Self(sys::holder(&module, NAME)?))
    }

    /// Puts it into a stream of its context, which is that of this thread's calls: it stores a number
    /// to `held`, and ends when `release` has reached it or its bound is over.
    pub(crate) fn launch(
        &self,
        stream: Stream,
        held: u64,
        release: u64,
        number: u32,
        bound: Duration,
    ) -> cuda::Result<()> {
        sys::launch(&self.0, stream, held, release, number, ns(bound))
    }

    /// Has the holder of a graph do so in the launches to come.
    pub(crate) fn launch_in(
        &self,
        nodes: &Nodes,
        held: u64,
        release: u64,
        number: u32,
        bound: Duration,
    ) -> cuda::Result<()> {
        nodes.hold(&self.0, held, release, number, ns(bound))
    }
}

fn ns(bound: Duration) -> u64 {
    u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_where_the_header_has_them() {
        let words = Words::at(0x1000, 3);
        assert_eq!((words.trigger, words.release), (0x10c0, 0x10c4));
        assert_eq!((words.done, words.held), (0x10c8, 0x10cc));
    }

    #[test]
    fn the_text_has_the_kernel() {
        let text = TEXT.to_str().unwrap();
        assert!(text.contains(&format!(".entry {}", NAME.to_str().unwrap())));
        let parameters = text.matches(".param .u").count();
        assert_eq!(parameters, sys::PARAMETERS);
    }
}
