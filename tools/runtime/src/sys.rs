// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the crate: memory that a child of `fork()` sees as zeroes, and the holder
//! as the kernel that it is.
#![allow(unsafe_code)]

#[cfg(test)]
mod shared;

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use cuda::{Entered, Executable, Function, Grid, Module, Node, Stream};
use rustix::mm::{madvise, mmap_anonymous, Advice, MapFlags, ProtFlags};

/// A word that is 1 in this process and 0 in its children.
static MARK: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();

/// The process that made the mark, for a kernel that cannot wipe it.
static MAKER: AtomicU32 = AtomicU32::new(0);

fn make_mark() -> Option<&'static AtomicU32> {
    MAKER.store(std::process::id(), Ordering::Relaxed);
    let length = rustix::param::page_size();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let place = ptr::null_mut();
    // SAFETY: A new mapping at an address that the kernel chooses replaces no other.
    let page = unsafe { mmap_anonymous(place, length, access, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: It was just mapped, and nobody else knows it.
    unsafe { madvise(page, length, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: The mapping is never ended; it is aligned, and zeroes make a valid word.
    let mark = unsafe { &*page.cast::<AtomicU32>() };
    mark.store(1, Ordering::Relaxed);
    Some(mark)
}

/// Remembers this process, once.
pub(crate) fn remember_process() {
    MARK.get_or_init(make_mark);
}

/// True in a child of the process that was remembered.
#[inline]
pub(crate) fn is_child() -> bool {
    match MARK.get() {
        Some(Some(mark)) => mark.load(Ordering::Relaxed) == 0,
        Some(None) => MAKER.load(Ordering::Relaxed) != std::process::id(),
        None => false,
    }
}

/// The parameters of the holder: its words, its number and its bound.
pub(crate) const PARAMETERS: usize = 4;

/// The holder of a module with the text of `holder.ptx`.
pub(crate) fn holder(module: &Module, name: &CStr) -> cuda::Result<Function> {
    // SAFETY: So many parameters it has; it stores to the first one alone.
    unsafe { module.function(name, PARAMETERS) }
}

const WARP: Grid = Grid {
    blocks: 1,
    threads: 32,
};

/// Launches a holder: one warp. `held` and `release` are addresses of words in memory that the GPU
/// has for as long as the context of the stream is used here.
pub(crate) fn launch(
    holder: &Function,
    stream: Stream,
    held: u64,
    release: u64,
    number: u32,
    bound_ns: u64,
) -> cuda::Result<()> {
    // SAFETY: The stream is there, by the callers; the words are those of registered slots, or of
    // memory of the GPU, which the owner of the holder keeps.
    unsafe { holder.launch(WARP, stream, [held, release, number.into(), bound_ns]) }
}

/// The nodes of a request in a graph that can be launched: a wait for a word, and a launch of the holder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nodes {
    pub(crate) graph: Executable,
    pub(crate) wait: Node,
    pub(crate) holder: Node,
}

impl Nodes {
    /// Has the launches to come wait for `trigger` to reach a number.
    pub(crate) fn wait(
        &self,
        entered: &Entered<'_>,
        trigger: u64,
        number: u32,
    ) -> cuda::Result<()> {
        // SAFETY: The graph is there, by its maker. CUDA refuses nodes that are none of it, or of
        // another kind.
        unsafe { entered.wait_word_in(self.graph, self.wait, trigger, number) }
    }

    /// Has them hold, as [`launch`].
    pub(crate) fn hold(
        &self,
        holder: &Function,
        held: u64,
        release: u64,
        number: u32,
        bound_ns: u64,
    ) -> cuda::Result<()> {
        let arguments = [held, release, number.into(), bound_ns];
        // SAFETY: As in wait(), and in launch().
        unsafe { holder.launch_in(WARP, self.graph, self.holder, arguments) }
    }
}

/// Has a stream store a number to a word of a slot that a request of it owns.
pub(crate) fn write(
    entered: &Entered<'_>,
    stream: Stream,
    word: u64,
    number: u32,
) -> cuda::Result<()> {
    // SAFETY: Slots are shared words, which any side may store to at any time.
    unsafe { entered.write_word(stream, word, number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_knows_that_it_is_one() {
        remember_process();
        assert!(!is_child());
        // SAFETY: The child makes one call that is safe after a fork.
        match unsafe { libc::fork() } {
            // SAFETY: As above.
            0 => unsafe { libc::_exit(i32::from(is_child())) },
            child => {
                assert!(child > 0);
                let mut status = 0;
                // SAFETY: `status` is valid for writes.
                let waited = unsafe { libc::waitpid(child, &mut status, 0) };
                assert_eq!(waited, child);
                assert!(libc::WIFEXITED(status));
                assert_eq!(libc::WEXITSTATUS(status), 1);
            }
        }
        assert!(!is_child());
    }
}
