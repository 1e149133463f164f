// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process: children of `fork()`, and threads that take no signals.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use rustix::mm::{madvise, mmap_anonymous, Advice, MapFlags, ProtFlags};

/// A word that is 1 in the process that made it and 0 in its children.
#[derive(Debug)]
pub(crate) struct Mark(Option<&'static AtomicU32>, u32);

impl Mark {
    /// Marks this process.
    pub(crate) fn new() -> Self {
        Self(Self::page(), std::process::id())
    }

    fn page() -> Option<&'static AtomicU32> {
        let length = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let place = ptr::null_mut();
        // SAFETY: A new mapping at an address that the kernel chooses replaces no other.
        let page = unsafe { mmap_anonymous(place, length, access, MapFlags::PRIVATE) }.ok()?;
        // SAFETY: It was just mapped, and nobody else knows it.
        unsafe { madvise(page, length, Advice::LinuxWipeOnFork) }.ok()?;
        // SAFETY: The mapping is never ended; it is aligned, and zeroes make a valid word.
        let word = unsafe { &*page.cast::<AtomicU32>() };
        word.store(1, Ordering::Relaxed);
        Some(word)
    }

    /// True in a child of the marked process.
    pub(crate) fn is_child(&self) -> bool {
        match self.0 {
            Some(word) => word.load(Ordering::Relaxed) == 0,
            None => std::process::id() != self.1,
        }
    }
}

/// True in the thread that the process began with.
pub(crate) fn is_main_thread() -> bool {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    u32::try_from(thread) == Ok(std::process::id())
}

/// Starts a thread that leaves all signals to those of the program. False: there is none.
pub(crate) fn spawn(run: impl FnOnce() + Send + 'static) -> Option<std::thread::JoinHandle<()>> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: The first call makes the set that the second one reads; `before` is valid for writes.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = std::thread::Builder::new()
        .name("fakecuda".to_owned())
        .spawn(run);
    // SAFETY: The call above has filled `before`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    started.ok()
}

/// A function of the program, and the value that it is called with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Callback {
    /// `CUhostFn`.
    Host(unsafe extern "C" fn(*mut c_void), usize),
    /// `CUstreamCallback`, with its stream.
    Stream(
        unsafe extern "C" fn(*mut c_void, i32, *mut c_void),
        u64,
        usize,
    ),
}

impl Callback {
    /// Calls it, with the status of the context. After an error a host function is not called.
    pub(crate) fn call(self, status: i32) {
        // SAFETY: The program has given function and value for this call.
        unsafe {
            match self {
                Self::Host(..) if status != 0 => {}
                Self::Host(function, value) => function(value as *mut c_void),
                Self::Stream(function, stream, value) => {
                    function(stream as *mut c_void, status, value as *mut c_void)
                }
            }
        }
    }
}

/// The mark of the process that initialised the library.
pub(crate) static MARK: OnceLock<Mark> = OnceLock::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_told_from_its_parent() {
        for mark in [Mark::new(), Mark(None, std::process::id())] {
            assert!(!mark.is_child());
            // SAFETY: The child makes calls alone that are safe after a fork.
            match unsafe { libc::fork() } {
                // SAFETY: As above.
                0 => unsafe { libc::_exit(i32::from(mark.is_child())) },
                child => {
                    let mut status = 0;
                    // SAFETY: `status` is valid for writes.
                    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                    assert_eq!(libc::WEXITSTATUS(status), 1);
                }
            }
        }
    }

    #[test]
    fn a_host_function_is_not_called_after_an_error() {
        extern "C" fn count(value: *mut c_void) {
            // SAFETY: It is the word below.
            unsafe { &*value.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
        }
        extern "C" fn keep(_: *mut c_void, status: i32, value: *mut c_void) {
            // SAFETY: As above.
            unsafe { &*value.cast::<AtomicU32>() }.store(status as u32, Ordering::Relaxed);
        }
        let word = AtomicU32::new(0);
        let value = ptr::from_ref(&word) as usize;
        Callback::Host(count, value).call(700);
        assert_eq!(word.load(Ordering::Relaxed), 0);
        Callback::Host(count, value).call(0);
        assert_eq!(word.load(Ordering::Relaxed), 1);
        Callback::Stream(keep, 0, value).call(700);
        assert_eq!(word.load(Ordering::Relaxed), 700);
    }

    #[test]
    fn a_thread_runs_and_ends() {
        assert!(!std::thread::spawn(is_main_thread).join().unwrap());
        let (say, hear) = std::sync::mpsc::channel();
        let thread = spawn(move || say.send(7).unwrap()).unwrap();
        assert_eq!(hear.recv(), Ok(7));
        thread.join().unwrap();
    }
}
