// SPDX-License-Identifier: MIT OR Apache-2.0
//! A seccomp filter on the number of an ioctl.
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
