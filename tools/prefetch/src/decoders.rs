// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads that decode, one for each processor. A child of `fork()` has none of its parent's, and
//! makes its own.

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// The threads of a process, and those of the children of that.
struct Decoders {
    process: u32,
    pool: ThreadPool,
    /// Those of a process that was forked from this one.
    child: OnceLock<Box<Self>>,
}

static FIRST: OnceLock<Box<Decoders>> = OnceLock::new();

/// Makes the threads of this process, if there are none. To be called before a `fork()` can come beside
/// the first batch: a child finds no step half done then.
///
/// # Errors
///
/// A thread cannot be made.
pub fn prepare() -> Result<(), ThreadPoolBuildError> {
    own().map(drop)
}

fn own() -> Result<&'static ThreadPool, ThreadPoolBuildError> {
    let process = std::process::id();
    let mut place = &FIRST;
    loop {
        match place.get() {
            Some(decoders) if decoders.process == process => return Ok(&decoders.pool),
            Some(decoders) => place = &decoders.child,
            None => {
                let pool = ThreadPoolBuilder::new()
                    .thread_name(|at| format!("zernel-decode-{at}"))
                    .build()?;
                let child = OnceLock::new();
                // Those of another thread, which was faster, do as well.
                let _was_first = place.set(Box::new(Decoders {
                    process,
                    pool,
                    child,
                }));
            }
        }
    }
}

/// Has a decoder run. Where no threads can be made it runs at once.
pub(crate) fn spawn(decoder: impl FnOnce() + Send + 'static) {
    match own() {
        Ok(pool) => pool.spawn(decoder),
        Err(_) => decoder(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_pool() {
        prepare().expect("threads");
        let first = own().expect("threads");
        assert!(std::ptr::eq(first, own().expect("threads")));
        let (send, name) = std::sync::mpsc::channel();
        spawn(move || {
            let name = std::thread::current().name().map(str::to_owned);
            send.send(name).expect("somebody waits");
        });
        let name = name.recv().expect("a thread").expect("its name");
        assert!(name.starts_with("zernel-decode-"), "{name}");
    }
}
