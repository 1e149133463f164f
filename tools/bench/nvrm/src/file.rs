// SPDX-License-Identifier: MIT OR Apache-2.0
//! An open control file: the calls that reach the resource manager.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use bytemuck::{bytes_of_mut, Pod, Zeroable};
use rustix::fs::{Mode, OFlags};
use testkit::sys::ioctl_bytes;

use super::abi::{class, escape, AllocLong, AllocShort, Card, Control, Dup, Free, Xfer};
use super::{Error, Handle, Result, Status};

/// Where the driver's nodes are.
pub const CONTROL: &str = "/dev/nvidiactl";

/// Most GPUs that the driver tells of at once.
const MAX_CARDS: usize = 32;

/// Which of the ways of making an object is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The structure with access rights.
    pub long: bool,
    /// The structure is not what the ioctl itself points to.
    pub indirect: bool,
}

impl Form {
    /// All ways.
    pub const ALL: [Self; 4] = [
        Self::new(false, false),
        Self::new(true, false),
        Self::new(false, true),
        Self::new(true, true),
    ];
    /// The way of most runtimes.
    pub const USUAL: Self = Self::new(true, false);

    const fn new(long: bool, indirect: bool) -> Self {
        Self { long, indirect }
    }
}

/// An open control file. Clients belong to the file, not to the process that uses it.
#[derive(Debug)]
pub struct ControlFile {
    fd: OwnedFd,
}

impl ControlFile {
    /// Opens a new one.
    pub fn open() -> rustix::io::Result<Self> {
        open_node(CONTROL).map(Self::from_fd)
    }

    /// One that was passed on, or a GPU's file that is bound to one.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// The driver's GPUs.
    pub fn cards(&self) -> Result<Vec<Card>> {
        let mut cards = [Card::zeroed(); MAX_CARDS];
        let number = number(escape::CARD_INFO, size_of_val(&cards));
        let bytes = bytemuck::must_cast_slice_mut(&mut cards[..]);
        ioctl_bytes(self.as_fd(), number, bytes).map_err(Error::Call)?;
        Ok(cards.into_iter().filter(|card| card.valid != 0).collect())
    }

    /// Binds a GPU's file to this one.
    pub fn bind(&self, gpu: BorrowedFd<'_>) -> Result<()> {
        let mut control = self.fd.as_raw_fd();
        let number = number(escape::REGISTER_FD, size_of::<i32>());
        ioctl_bytes(gpu, number, bytes_of_mut(&mut control)).map_err(Error::Call)?;
        Ok(())
    }

    /// Makes a client.
    pub fn client(&self) -> Result<Handle> {
        let none = Handle::NONE;
        self.alloc(Form::USUAL, none, none, none, class::ROOT, &mut [])
    }

    /// Makes an object; `wish` is the handle that it is to have, or none. Its handle is returned.
    pub fn alloc(
        &self,
        form: Form,
        client: Handle,
        parent: Handle,
        wish: Handle,
        class: u32,
        params: &mut [u8],
    ) -> Result<Handle> {
        let pointer = if params.is_empty() {
            0
        } else {
            params.as_mut_ptr() as u64
        };
        self.alloc_at(
            form,
            client,
            parent,
            wish,
            class,
            pointer,
            params.len() as u32,
        )
    }

    /// As [`Self::alloc`], with the parameters at any address.
    #[expect(clippy::too_many_arguments, reason = "the call has as many")]
    pub fn alloc_at(
        &self,
        form: Form,
        client: Handle,
        parent: Handle,
        wish: Handle,
        class: u32,
        params: u64,
        size: u32,
    ) -> Result<Handle> {
        let (object, status) = if form.long {
            let mut call = AllocLong {
                root: client.0,
                parent: parent.0,
                object: wish.0,
                class,
                params,
                size,
                ..AllocLong::zeroed()
            };
            self.call(escape::ALLOC, &mut call, form.indirect)?;
            (call.object, call.status)
        } else {
            let mut call = AllocShort {
                root: client.0,
                parent: parent.0,
                object: wish.0,
                class,
                params,
                size,
                status: 0,
            };
            self.call(escape::ALLOC, &mut call, form.indirect)?;
            (call.object, call.status)
        };
        answer(status, Handle(object))
    }

    /// Frees an object and all below it.
    pub fn free(&self, client: Handle, object: Handle) -> Result<()> {
        let mut call = Free {
            root: client.0,
            parent: 0,
            object: object.0,
            status: 0,
        };
        self.call(escape::FREE, &mut call, false)?;
        answer(call.status, ())
    }

    /// Controls an object.
    pub fn control<T: Pod>(
        &self,
        client: Handle,
        object: Handle,
        cmd: u32,
        flags: u32,
        params: &mut T,
    ) -> Result<()> {
        let mut call = Control {
            client: client.0,
            object: object.0,
            cmd,
            flags,
            params: bytes_of_mut(params).as_mut_ptr() as u64,
            size: size_of::<T>() as u32,
            status: 0,
        };
        self.call(escape::CONTROL, &mut call, false)?;
        answer(call.status, ())
    }

    /// Gives an object of another client a handle below `parent`.
    pub fn dup(
        &self,
        client: Handle,
        parent: Handle,
        wish: Handle,
        source_client: Handle,
        source: Handle,
    ) -> Result<Handle> {
        let mut call = Dup {
            client: client.0,
            parent: parent.0,
            object: wish.0,
            source_client: source_client.0,
            source_object: source.0,
            flags: 0,
            status: 0,
        };
        self.call(escape::DUP, &mut call, false)?;
        answer(call.status, Handle(call.object))
    }

    fn call<T: Pod>(&self, escape: u32, structure: &mut T, indirect: bool) -> Result<()> {
        let called = if indirect {
            let mut xfer = Xfer {
                cmd: escape,
                size: size_of::<T>() as u32,
                pointer: bytes_of_mut(structure).as_mut_ptr() as u64,
            };
            let number = number(escape::XFER, size_of::<Xfer>());
            ioctl_bytes(self.as_fd(), number, bytes_of_mut(&mut xfer))
        } else {
            let number = number(escape, size_of::<T>());
            ioctl_bytes(self.as_fd(), number, bytes_of_mut(structure))
        };
        called.map(drop).map_err(Error::Call)
    }
}

impl AsFd for ControlFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens one of the driver's nodes.
pub fn open_node(path: &str) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// The number of an ioctl that reads and writes a structure of this size.
pub const fn number(escape: u32, size: usize) -> u32 {
    const BOTH: u32 = 3;
    const MAGIC: u32 = b'F' as u32;
    (BOTH << 30) | ((size as u32 & 0x3fff) << 16) | (MAGIC << 8) | escape
}

fn answer<T>(status: u32, value: T) -> Result<T> {
    match Status(status) {
        Status::OK => Ok(value),
        status => Err(Error::Status(status)),
    }
}
