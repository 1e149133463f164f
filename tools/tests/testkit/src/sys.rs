// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the crate: forking, credentials and raw calls.
#![allow(unsafe_code)]

mod arena;
mod sleeping;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use arena::Arena;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions};
pub use sleeping::Sleeping;

/// Forks. `None` in the new process.
///
/// The caller has no other threads, so that no lock is held in the new process.
pub fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: By the above, everything can go on as in the parent.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// `struct clone_args` up to `cgroup`.
#[repr(C)]
#[derive(Default)]
struct Arguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// As [`fork`], with the number that the new process is to have.
pub fn fork_numbered(pid: u32) -> io::Result<Option<Pid>> {
    let set_tid = [pid];
    clone_process(&Arguments {
        set_tid: set_tid.as_ptr() as u64,
        set_tid_size: 1,
        ..Arguments::default()
    })
}

/// Of `struct clone_args`; what libc has overflows.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// As [`fork`], into the cgroup of this directory.
pub fn fork_into(cgroup: BorrowedFd<'_>) -> io::Result<Option<Pid>> {
    clone_process(&Arguments {
        flags: CLONE_INTO_CGROUP,
        cgroup: cgroup.as_raw_fd() as u64,
        ..Arguments::default()
    })
}

/// The memory behind the arguments lives as long as the call.
fn clone_process(arguments: &Arguments) -> io::Result<Option<Pid>> {
    let arguments = Arguments {
        exit_signal: libc::SIGCHLD as u64,
        ..*arguments
    };
    let size = size_of::<Arguments>();
    // SAFETY: As `fork`: no memory is shared and the stack is copied.
    match unsafe { libc::syscall(libc::SYS_clone3, &arguments, size) } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(i32::try_from(pid).ok().and_then(Pid::from_raw)),
    }
}

/// Makes a thread that waits until `word` changes, again and again, until its process ends. It has no
/// stack, and takes no signal but those that end it.
#[cfg(target_arch = "x86_64")]
pub fn spawn_waiter(word: &'static AtomicU32) -> io::Result<()> {
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    let result: isize;
    // SAFETY: The new thread uses registers alone, reads `word`, which is there for ever, and never
    // leaves the loop.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 3f",
            "2:",
            "mov edx, dword ptr [r12]",
            "mov eax, {futex}",
            "mov rdi, r12",
            "mov esi, {wait}",
            "xor r10d, r10d",
            "syscall",
            "jmp 2b",
            "3:",
            futex = const libc::SYS_futex,
            wait = const libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            inlateout("rax") libc::SYS_clone as isize => result,
            in("rdi") flags as isize,
            in("rsi") 0,
            inlateout("rdx") 0 => _,
            inlateout("r10") 0 => _,
            in("r8") 0,
            in("r12") word.as_ptr(),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if result < 0 {
        let errno = i32::try_from(-result).unwrap_or(libc::EIO);
        return Err(io::Error::from_raw_os_error(errno));
    }
    Ok(())
}

/// Wakes `count` of those that [`spawn_waiter`] has made in this process, each once: who waits again
/// comes last.
#[cfg(target_arch = "x86_64")]
pub fn wake_waiters(word: &'static AtomicU32, count: usize) {
    /// Woken at once: the kernel holds a lock meanwhile.
    const SOME: usize = 128;
    word.fetch_add(1, Ordering::SeqCst);
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let mut left = count;
    while left > 0 {
        let some = left.min(SOME);
        // SAFETY: The word is there, and nothing else is read or written.
        let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, some) };
        left -= usize::try_from(woken).unwrap_or(0).min(some);
        std::thread::yield_now();
    }
}

/// Ends the process at once, without running what was registered for its end.
pub fn exit(status: i32) -> ! {
    // SAFETY: Ends the process.
    unsafe { libc::_exit(status) }
}

/// Ends the calling thread alone, even if it is the first one.
pub fn exit_thread() -> ! {
    // SAFETY: Nothing of the thread's stack is used any more: the process ends without unwinding.
    unsafe {
        libc::syscall(libc::SYS_exit, 0);
    }
    unreachable!("a thread that has exited")
}

/// Calls `run`, which may leave by [`jump_out`]: where it was called the stack goes on.
pub fn call_and_come_back(run: impl FnOnce()) {
    extern "C" {
        #[link_name = "_setjmp"]
        fn setjmp(place: *mut [u64; 64]) -> libc::c_int;
    }
    let place = PLACE.with(std::cell::Cell::as_ptr);
    // SAFETY: The memory is larger than a `jmp_buf`. Nothing is used after the second return that
    // was not there before the first.
    if unsafe { setjmp(place) } == 0 {
        run();
    }
}

/// Leaves what [`call_and_come_back`] runs, and everything that it has called, as longjmp(3) does.
pub fn jump_out() -> ! {
    extern "C" {
        fn longjmp(place: *mut [u64; 64], value: libc::c_int) -> !;
    }
    // SAFETY: The function that has filled it has not returned. What lies between has nothing to
    // drop, by the callers.
    unsafe { longjmp(PLACE.with(std::cell::Cell::as_ptr), 1) }
}

thread_local! {
    /// Where [`jump_out`] goes on.
    static PLACE: std::cell::Cell<[u64; 64]> = const { std::cell::Cell::new([0; 64]) };
}

/// Runs `sleep 600` instead of this program; returns only if it cannot.
pub fn exec_sleep() -> io::Result<()> {
    use std::os::unix::process::CommandExt;
    Err(std::process::Command::new("/bin/sleep").arg("600").exec())
}

/// Orphans below this process become its children.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: Takes plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })
}

/// Kills and reaps every child, also those that became one because their parent ended; those that
/// still run after a while stay.
pub fn end_all() {
    let end = Instant::now() + crate::SOON;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) if Instant::now() < end => {
                kill_children();
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(None) | Err(_) => return,
        }
    }
}

fn kill_children() {
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    for pid in children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
    {
        if let Some(pid) = Pid::from_raw(pid) {
            // It may have ended meanwhile.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Turns this process into one of user `uid`, group `gid` and the `groups`, for good; it loses
/// all capabilities unless `uid` is 0.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: The array is as long as told; the rest are plain numbers.
    unsafe {
        check(libc::setgroups(groups.len(), groups.as_ptr()))?;
        check(libc::setresgid(gid, gid, gid))?;
        check(libc::setresuid(uid, uid, uid))?;
    }
    Ok(())
}

/// As [`become_user`], keeping exactly the capability of number `capability`.
pub fn become_user_with(uid: u32, gid: u32, capability: u32) -> io::Result<()> {
    // SAFETY: Takes plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) })?;
    become_user(uid, gid, &[])?;
    set_capabilities(1 << capability)
}

/// Sets the real, effective and saved user.
pub fn set_users(real: u32, effective: u32, saved: u32) -> io::Result<()> {
    // SAFETY: Takes plain numbers.
    check(unsafe { libc::setresuid(real, effective, saved) })
}

/// Stops a child of the caller as a debugger does, and lets it go on.
pub fn trace_for_a_moment(pid: u32) -> io::Result<()> {
    let pid = pid as libc::pid_t;
    let trace = |request: libc::c_uint| {
        // SAFETY: None of the requests reads or writes memory.
        let result = unsafe { libc::ptrace(request, pid, 0usize, 0usize) };
        check(if result < 0 { -1 } else { 0 })
    };
    trace(libc::PTRACE_SEIZE)?;
    trace(libc::PTRACE_INTERRUPT)?;
    // SAFETY: No status is asked for.
    let stopped = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
    check(if stopped < 0 { -1 } else { 0 })?;
    trace(libc::PTRACE_DETACH)
}

/// Has a thread, 0 for the caller, scheduled by another policy (`SCHED_*`), with the lowest
/// priority that it has.
pub fn set_policy(tid: u32, policy: libc::c_int) -> io::Result<()> {
    let realtime = [libc::SCHED_FIFO, libc::SCHED_RR].contains(&(policy & 7));
    let parameters = libc::sched_param {
        sched_priority: realtime.into(),
    };
    // SAFETY: Reads the parameters.
    check(unsafe { libc::sched_setscheduler(tid as libc::pid_t, policy, &parameters) })
}

/// Leaves the namespaces of these `CLONE_NEW` flags.
pub fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: Takes a plain number; none of the flags touches memory.
    check(unsafe { libc::unshare(flags) })
}

/// Makes `mask` the permitted and effective capabilities, and nothing inheritable.
pub fn set_capabilities(mask: u64) -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let (low, high) = (mask as u32, (mask >> 32) as u32);
    let data = [low, low, 0, high, high, 0];
    // SAFETY: The layouts of version 3: two words, and twice three words.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) };
    check(i32::try_from(result).unwrap_or(-1))
}

/// An address that no program may use.
#[derive(Debug, Clone, Copy)]
pub enum Wild {
    /// Null.
    Null,
    /// The first address of the kernel's half.
    Kernel,
    /// Between the halves.
    NonCanonical,
    /// The last byte of all.
    Last,
}

impl Wild {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Null, Self::Kernel, Self::NonCanonical, Self::Last];

    /// The number.
    pub fn address(self) -> u64 {
        match self {
            Self::Null => 0,
            Self::Kernel => 0xffff_8000_0000_0000,
            Self::NonCanonical => 0x8000_0000_0000_0000,
            Self::Last => u64::MAX,
        }
    }

    /// An ioctl at this address.
    pub fn ioctl(self, fd: BorrowedFd<'_>, number: u32) -> Result<i32, Errno> {
        // SAFETY: The kernel cannot read or write anything of ours there.
        unsafe { ioctl(fd, number, self.address() as usize) }
    }
}

/// Memory that ends: a page that can be used, and nothing after it for longer than any structure.
///
/// # Invariants
///
/// `base` is a mapping of [`Area::LEN`] bytes of which the first page alone is accessible.
pub struct Area {
    base: usize,
}

impl Area {
    /// Length of what can be used.
    pub const PAGE: usize = 4096;
    /// Longer than a page, the longest structure of an ioctl and a page of entries.
    const LEN: usize = Self::PAGE * 128;

    /// Maps it.
    pub fn new() -> io::Result<Self> {
        // SAFETY: A new mapping where there is none.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                Self::LEN,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let area = Self {
            base: base as usize,
        };
        area.protect(libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(area)
    }

    fn protect(&self, protection: libc::c_int) -> io::Result<()> {
        // SAFETY: By the invariants the page is ours; bytes of it are copied, never borrowed.
        check(unsafe { libc::mprotect(self.base as *mut _, Self::PAGE, protection) })
    }

    /// Makes the page read-only.
    pub fn freeze(&mut self) -> io::Result<()> {
        self.protect(libc::PROT_READ)
    }

    /// The address of a byte.
    pub fn address(&self, offset: usize) -> u64 {
        (self.base + offset) as u64
    }

    /// Fills the page from `offset` on.
    pub fn put(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= Self::PAGE);
        // SAFETY: Within the page, by the assertion; not the same memory as a slice of the caller.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                (self.base + offset) as *mut u8,
                bytes.len(),
            );
        }
    }

    /// Copies from the page.
    pub fn get(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= Self::PAGE);
        let mut bytes = vec![0; length];
        // SAFETY: Within the page, by the assertion.
        unsafe {
            std::ptr::copy_nonoverlapping(
                (self.base + offset) as *const u8,
                bytes.as_mut_ptr(),
                length,
            );
        }
        bytes
    }

    /// An ioctl whose structure is at `offset`, which may reach past the end.
    pub fn ioctl(&mut self, fd: BorrowedFd<'_>, number: u32, offset: usize) -> Result<i32, Errno> {
        assert!(offset <= Self::PAGE);
        // SAFETY: The mapping is longer than any structure, so that nothing else is reached.
        unsafe { ioctl(fd, number, self.base + offset) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: The mapping is ours by the invariants.
        unsafe { libc::munmap(self.base as *mut _, Self::LEN) };
    }
}

/// Any ioctl.
///
/// # Safety
///
/// If the kernel takes the call, `address` is valid for what it reads and writes there.
pub unsafe fn ioctl(fd: BorrowedFd<'_>, number: u32, address: usize) -> Result<i32, Errno> {
    // SAFETY: By the caller.
    match unsafe { libc::ioctl(fd.as_raw_fd(), number.into(), address) } {
        -1 => Err(last_errno()),
        result => Ok(result),
    }
}

/// An ioctl on a buffer that is as long as the number says or longer.
///
/// An address in the bytes is an [`Area`] or memory of the caller.
pub fn ioctl_bytes(fd: BorrowedFd<'_>, number: u32, bytes: &mut [u8]) -> Result<i32, Errno> {
    assert!(bytes.len() >= (number >> 16 & 0x3fff) as usize);
    // SAFETY: The kernel reads and writes as many bytes as the number says.
    unsafe { ioctl(fd, number, bytes.as_mut_ptr() as usize) }
}

/// The first page of a file, mapped shared as long as this lives.
///
/// # Invariants
///
/// `base` is a mapping of one page that nobody else knows.
pub struct Mapped {
    base: usize,
}

impl Mapped {
    /// Maps it.
    pub fn of(fd: BorrowedFd<'_>) -> Result<Self, Errno> {
        let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY: A new mapping where there is none.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                Area::PAGE,
                protection,
                flags,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(last_errno());
        }
        Ok(Self {
            base: base as usize,
        })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: The mapping is ours by the invariants.
        unsafe { libc::munmap(self.base as *mut _, Area::PAGE) };
    }
}

/// Which pages of a file are in the page cache: those of `length` bytes from `offset` on, which is
/// the first byte of a page.
pub fn resident(fd: BorrowedFd<'_>, offset: u64, length: usize) -> Result<Vec<bool>, Errno> {
    let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
    let offset = libc::off_t::try_from(offset).map_err(|_| Errno::INVAL)?;
    let mut pages = vec![0u8; length.div_ceil(Area::PAGE)];
    // SAFETY: A new mapping where there is none, of which nothing is read, and unmapped at once;
    // there is room for a byte for each of its pages.
    let told = unsafe {
        let base = libc::mmap(
            std::ptr::null_mut(),
            length,
            protection,
            flags,
            fd.as_raw_fd(),
            offset,
        );
        if base == libc::MAP_FAILED {
            return Err(last_errno());
        }
        let told = libc::mincore(base, length, pages.as_mut_ptr());
        let told = if told == 0 { Ok(()) } else { Err(last_errno()) };
        libc::munmap(base, length);
        told
    };
    told.map(|()| pages.iter().map(|page| page & 1 != 0).collect())
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
