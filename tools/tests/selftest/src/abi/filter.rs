// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seccomp filters.
#![allow(unsafe_code)]

use std::io;

/// Has each ioctl of this process whose number is `number` under `mask` fail with `EOWNERDEAD`,
/// which nobody else answers, for good.
pub fn refuse(number: u32, mask: u32) -> io::Result<()> {
    // Offsets of `struct seccomp_data`: the call, and the low half of its second argument.
    let (call, argument) = (0, 16 + 8);
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let and = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    let ret = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(load, call, 0, 0),
        step(equal, libc::SYS_ioctl as u32, 0, 4),
        step(load, argument, 0, 0),
        step(and, mask, 0, 0),
        step(equal, number, 0, 1),
        step(ret, libc::SECCOMP_RET_ERRNO | libc::EOWNERDEAD as u32, 0, 0),
        step(ret, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    install(&mut program)
}

/// Kills this process at each system call that is none of these, for good.
pub fn only(allowed: &[libc::c_long]) -> io::Result<()> {
    let step = |code: u32, k, jt, jf| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for call in allowed.iter().chain(&[libc::SYS_exit_group]) {
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        program.push(step(equal, *call as u32, 0, 1));
        let allow = libc::SECCOMP_RET_ALLOW;
        program.push(step(libc::BPF_RET | libc::BPF_K, allow, 0, 0));
    }
    let kill = libc::SECCOMP_RET_KILL_PROCESS;
    program.push(step(libc::BPF_RET | libc::BPF_K, kill, 0, 0));
    install(&mut program)
}

/// Ends this process, and does nothing else.
pub fn exit(status: i32) -> ! {
    // SAFETY: It has no effect on memory.
    unsafe { libc::_exit(status) }
}

fn install(program: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: The program is valid during the call, which copies it.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
