// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures that the kernel makes up: of memory that a module asks for, and of copies between it
//! and processes. The kernel's fault injection does it, and its filter of call chains keeps it to
//! the module.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context as _, Result};

use crate::harness::Skip;

/// The allocations that are made to fail.
const MEMORY: [&str; 2] = ["failslab", "fail_page_alloc"];
const COPIES: &str = "fail_usercopy";
/// Which of the calling thread's is to fail next.
const NTH: &str = "/proc/thread-self/fail-nth";

/// The kernel as it is otherwise cannot fail so often in one call.
const MOST: u32 = 1_000;

/// The failures of a module; dropped, everything is put back.
pub struct Faults {
    before: Vec<(PathBuf, String)>,
}

/// Failures in the calls of one thread.
pub struct OneByOne(File);

impl Faults {
    /// Failures in what a module that is loaded does.
    ///
    /// Errors: [`Skip`] where the kernel has no such thing.
    pub fn of_module(name: &str) -> Result<Self> {
        if !Path::new(NTH).exists() {
            return Err(Skip("this kernel makes up no failures").into());
        }
        if !kinds().all(|kind| file(kind, "require-start").exists()) {
            return Err(Skip("this kernel cannot keep failures to a module").into());
        }
        let (start, end) = text_of(name)?;
        let mut faults = Self { before: Vec::new() };
        for kind in kinds() {
            for (what, value) in [
                ("require-start", start.to_string()),
                ("require-end", end.to_string()),
                ("stacktrace-depth", "32".to_owned()),
                ("verbose", "0".to_owned()),
                ("interval", "1".to_owned()),
                ("space", "0".to_owned()),
            ] {
                faults.set(kind, what, &value)?;
            }
        }
        for kind in MEMORY {
            faults.set(kind, "ignore-gfp-wait", "N")?;
        }
        faults.set("fail_page_alloc", "ignore-gfp-highmem", "N")?;
        faults.set("fail_page_alloc", "min-order", "0")?;
        Ok(faults)
    }

    /// None in what that function of the module does.
    pub fn but_not_in(mut self, module: &str, function: &str) -> Result<Self> {
        let symbols = functions_of(module)?;
        let place = symbols.iter().find(|(_, name)| name == function);
        let (start, _) = place.with_context(|| format!("no function {function}"))?;
        let end = symbols.iter().map(|(address, _)| address);
        let end = end.filter(|address| *address > start).min();
        let end = end.with_context(|| format!("nothing is behind {function}"))?;
        for kind in kinds() {
            self.set(kind, "reject-start", &start.to_string())?;
            self.set(kind, "reject-end", &end.to_string())?;
        }
        Ok(self)
    }

    /// None that is more than so many calls away from the module, deep in the kernel.
    pub fn near(mut self, calls: u32) -> Result<Self> {
        for kind in kinds() {
            self.set(kind, "stacktrace-depth", &calls.to_string())?;
        }
        Ok(self)
    }

    fn set(&mut self, kind: &str, what: &str, value: &str) -> Result<()> {
        let path = file(kind, what);
        let before = fs::read_to_string(&path)?;
        put(&path, value)?;
        self.before.push((path, before.trim_end().to_owned()));
        Ok(())
    }

    /// Failures in the calls of the calling thread, who must have the privilege for that now.
    pub fn one_by_one(&self) -> Result<OneByOne> {
        let file = OpenOptions::new().read(true).write(true).open(NTH)?;
        Ok(OneByOne(file))
    }

    /// The module gets no memory, whoever asks for it, until what is returned is dropped.
    pub fn no_memory(&mut self) -> Result<NoMemory> {
        self.no_memory_after(0)
    }

    /// As [`Self::no_memory`], but for so many bytes of small pieces: what does not fit into what is
    /// left of them fails.
    pub fn no_memory_after(&mut self, bytes: u32) -> Result<NoMemory> {
        self.fail(("space", bytes))
    }

    /// As [`Self::no_memory`], but of small pieces only each `n`th fails.
    pub fn little_memory(&mut self, n: u32) -> Result<NoMemory> {
        self.fail(("interval", n))
    }

    /// `how`: which of the small pieces fail.
    fn fail(&mut self, (what, how): (&str, u32)) -> Result<NoMemory> {
        let none = NoMemory;
        put(&file(MEMORY[0], what), &how.to_string())?;
        for kind in MEMORY {
            put(&file(kind, "times"), "-1")?;
            put(&file(kind, "probability"), "100")?;
        }
        Ok(none)
    }
}

impl OneByOne {
    /// Makes a call in which the `n`th of all that can fail does, counted from 1. Says also whether
    /// there are so many.
    pub fn nth<T>(&self, n: u32, call: impl FnOnce() -> T) -> Result<(T, bool)> {
        self.0.write_all_at(n.to_string().as_bytes(), 0)?;
        let result = call();
        let mut left = [0; 16];
        let length = self.0.read_at(&mut left, 0)?;
        self.0.write_all_at(b"0", 0)?;
        let left = std::str::from_utf8(&left[..length])?.trim_end();
        Ok((result, left == "0"))
    }

    /// Has a round made with each of them, from the first on, until there are no more. Returns how
    /// many there are. A round makes its call by [`Self::nth`] and says what that said.
    pub fn each(&self, mut round: impl FnMut(u32) -> Result<bool>) -> Result<u32> {
        for n in 1..MOST {
            if !round(n).with_context(|| format!("with failure {n}"))? {
                return Ok(n - 1);
            }
        }
        anyhow::bail!("{MOST} failures and no end");
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        for (path, value) in self.before.drain(..).rev() {
            // A failure here makes nothing fail: nothing is armed any more.
            let _ = put(&path, &value);
        }
    }
}

/// No memory for the module; dropped, there is again.
pub struct NoMemory;

impl Drop for NoMemory {
    fn drop(&mut self) {
        for kind in MEMORY {
            // Fails only where it could not be armed either.
            let _ = put(&file(kind, "probability"), "0");
            let _ = put(&file(kind, "space"), "0");
            let _ = put(&file(kind, "interval"), "1");
            let _ = put(&file(kind, "times"), "1");
        }
    }
}

fn kinds() -> impl Iterator<Item = &'static str> {
    MEMORY.into_iter().chain([COPIES])
}

fn file(kind: &str, what: &str) -> PathBuf {
    Path::new("/sys/kernel/debug").join(kind).join(what)
}

fn put(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value).with_context(|| format!("{value} to {}", path.display()))
}

/// Where the code of a module begins, and where it ends: with the page of its last function.
fn text_of(name: &str) -> Result<(u64, u64)> {
    let functions = functions_of(name)?;
    let addresses = || functions.iter().map(|(address, _)| *address);
    let (first, last) = (addresses().min(), addresses().max());
    let (first, last) = first.zip(last).context("a module without code")?;
    ensure!(first > 0, "the kernel hides its addresses");
    Ok((first, (last | 0xfff) + 1))
}

/// Addresses and names of a module's functions.
fn functions_of(module: &str) -> Result<Vec<(u64, String)>> {
    let symbols = fs::read_to_string("/proc/kallsyms")?;
    let mark = format!("[{module}]");
    let functions = symbols.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
        let is_code = matches!(kind, "t" | "T") && line.ends_with(&mark);
        let address = is_code.then(|| u64::from_str_radix(address, 16))?;
        Some((address.ok()?, name.to_owned()))
    });
    Ok(functions.collect())
}
