// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data from sockets: functions of the C library. They are its own, with a look at what they
//! return.

use std::ffi::{c_int, c_void, CStr};
use std::mem::transmute;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{find, guard};
use crate::watch;

/// A function of the C library that comes after the one here; found once.
#[inline]
fn next(found: &AtomicUsize, symbol: &CStr) -> usize {
    match found.load(Relaxed) {
        0 => {
            let next = |dlsym: find::Dlsym| {
                // SAFETY: The name ends with a zero.
                unsafe { dlsym(libc::RTLD_NEXT, symbol.as_ptr()) as usize }
            };
            let address = find::dlsym().map_or(0, next);
            found.store(address, Relaxed);
            address
        }
        address => address,
    }
}

/// True if a file is a socket.
fn is_socket(file: c_int) -> bool {
    let mut kind: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    let place = (&raw mut kind).cast();
    // SAFETY: Both places are valid for writes, of the length that is said.
    unsafe { libc::getsockopt(file, libc::SOL_SOCKET, libc::SO_TYPE, place, &mut length) == 0 }
}

/// Declares functions in the place of the C library's. They may be ended by a cancellation. `may`:
/// the file may be another one than a socket.
macro_rules! functions {
    ($($may:literal $name:ident($file:ident: c_int $(, $argument:ident: $type:ty)* $(,)?);)*) => {
        $(
            /// As the C library's function of this name.
            ///
            /// # Safety
            ///
            /// As the C library's.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name($file: c_int $(, $argument: $type)*) -> isize {
                static FOUND: AtomicUsize = AtomicUsize::new(0);
                let real = next(&FOUND, super::forms::text(concat!(stringify!($name), "\0")));
                if real == 0 {
                    // SAFETY: It is this thread's.
                    unsafe { *libc::__errno_location() = libc::ENOSYS };
                    return -1;
                }
                // SAFETY: The C library's function of this name has this type.
                let real = unsafe {
                    transmute::<usize, unsafe extern "C-unwind" fn(c_int $(, $type)*) -> isize>(
                        real,
                    )
                };
                // SAFETY: The arguments are the program's.
                let length = unsafe { real($file $(, $argument)*) };
                if length > 0 && guard::is_watching() {
                    let site = $name as *const () as usize;
                    watch::received(site, length as u64, || !$may || is_socket($file));
                }
                length
            }
        )*
    };
}

functions! {
    true read(file: c_int, to: *mut c_void, length: usize);
    false recv(file: c_int, to: *mut c_void, length: usize, flags: c_int);
    false recvfrom(
        file: c_int, to: *mut c_void, length: usize, flags: c_int, from: *mut c_void,
        from_length: *mut c_void,
    );
    false recvmsg(file: c_int, message: *mut c_void, flags: c_int);
    true __read_chk(file: c_int, to: *mut c_void, length: usize, room: usize);
    false __recv_chk(file: c_int, to: *mut c_void, length: usize, room: usize, flags: c_int);
    false __recvfrom_chk(
        file: c_int, to: *mut c_void, length: usize, room: usize, flags: c_int, from: *mut c_void,
        from_length: *mut c_void,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn sockets_are_told_from_files() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(is_socket(one.as_raw_fd()));
        assert!(!is_socket(File::open("/dev/null").unwrap().as_raw_fd()));
        assert!(!is_socket(-1));
    }

    #[test]
    fn data_and_errors_come_through() {
        let (one, mut other) = UnixStream::pair().unwrap();
        other.write_all(b"abc").unwrap();
        let mut bytes = [0_u8; 8];
        let (file, to) = (one.as_raw_fd(), bytes.as_mut_ptr().cast());
        // SAFETY: There is room for so many bytes, and `errno` is this thread's.
        unsafe {
            assert_eq!(recv(file, to, 2, 0), 2);
            assert_eq!(read(file, to, 8), 1);
            assert_eq!(recv(file, to, 8, libc::MSG_DONTWAIT), -1);
            assert_eq!(*libc::__errno_location(), libc::EAGAIN);
            assert_eq!(read(-1, to, 8), -1);
            assert_eq!(*libc::__errno_location(), libc::EBADF);
        }
        assert_eq!(&bytes[..2], b"cb");
    }
}
