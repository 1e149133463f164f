// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors and numbers that one process passes to another through a socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use anyhow::{bail, ensure, Result};
use rustix::net::{
    recvmsg, sendmsg, socketpair, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage,
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Both ends of a socket that keeps messages apart.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// Passes a descriptor on.
pub fn send(socket: &OwnedFd, fd: BorrowedFd<'_>) -> Result<()> {
    send_with(socket, fd, SendFlags::empty())
}

/// Passes a descriptor on, if there is room for it.
pub fn send_now(socket: &OwnedFd, fd: BorrowedFd<'_>) -> Result<()> {
    send_with(socket, fd, SendFlags::DONTWAIT)
}

fn send_with(socket: &OwnedFd, fd: BorrowedFd<'_>, flags: SendFlags) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    ensure!(
        message.push(SendAncillaryMessage::ScmRights(&fds)),
        "no room for a descriptor"
    );
    sendmsg(socket, &[IoSlice::new(b"f")], &mut message, flags)?;
    Ok(())
}

/// Takes a descriptor.
pub fn receive(socket: &OwnedFd) -> Result<OwnedFd> {
    match receive_with(socket, RecvFlags::empty())? {
        Some(fd) => Ok(fd),
        None => bail!("a message without a descriptor"),
    }
}

/// Takes a descriptor, if there is one.
pub fn receive_now(socket: &OwnedFd) -> Result<Option<OwnedFd>> {
    receive_with(socket, RecvFlags::DONTWAIT)
}

fn receive_with(socket: &OwnedFd, flags: RecvFlags) -> Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    recvmsg(
        socket,
        &mut data,
        &mut message,
        RecvFlags::CMSG_CLOEXEC | flags,
    )?;
    for part in message.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = part {
            if let Some(fd) = fds.next() {
                return Ok(Some(fd));
            }
        }
    }
    Ok(None)
}

/// Passes a number on.
pub fn send_number(socket: &OwnedFd, number: u64) -> Result<()> {
    rustix::io::write(socket, &number.to_ne_bytes())?;
    Ok(())
}

/// Takes a number.
pub fn receive_number(socket: &OwnedFd) -> Result<u64> {
    let mut bytes = [0; 8];
    check_length(rustix::io::read(socket, &mut bytes)?)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn check_length(length: usize) -> Result<()> {
    ensure!(length == 8, "{length} bytes instead of a number");
    Ok(())
}
