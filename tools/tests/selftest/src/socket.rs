// SPDX-License-Identifier: GPL-2.0
//! A pair of sockets through which files are handed from process to process.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use anyhow::{Context as _, Result};
use rustix::net::{
    recvmsg, sendmsg, socketpair, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage,
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Both ends; forked processes share them.
pub struct Pair {
    sender: OwnedFd,
    receiver: OwnedFd,
}

impl Pair {
    /// A new pair.
    pub fn new() -> Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (sender, receiver) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok(Self { sender, receiver })
    }

    /// Hands a file over.
    pub fn send(&self, file: BorrowedFd<'_>) -> Result<()> {
        let files = [file];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let data = [IoSlice::new(b"f")];
        sendmsg(&self.sender, &data, &mut control, SendFlags::empty())?;
        Ok(())
    }

    /// Takes a file; waits for it.
    pub fn receive(&self) -> Result<OwnedFd> {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut data = [IoSliceMut::new(&mut byte)];
        recvmsg(
            &self.receiver,
            &mut data,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        file.context("no file was sent")
    }
}
