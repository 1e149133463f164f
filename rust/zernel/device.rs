// SPDX-License-Identifier: GPL-2.0
//! `/dev/zernel`: the calls on open files.

mod class;
mod client;
mod encode;
mod events;
mod handles;
mod hint;
mod histogram;
mod info;
mod list;
mod probe;
mod remove;
mod request;
mod subscribe;
mod target;
mod track;

use crate::{
    attributes,
    glue::{
        abi::{
            self,
            Abi, //
        },
        errno,
        miscdev::{
            self,
            Readiness, //
        },
        uapi, //
    },
    registry,
    stream::{
        self,
        State, //
    }, //
};
pub(crate) use client::Client;
use kernel::{
    fs::{
        File,
        Kiocb, //
    },
    ioctl::{
        _IOC_SIZE,
        _IOC_TYPE,
        _IOWR, //
    },
    iov::IovIterDest,
    miscdevice::{
        MiscDevice,
        MiscDeviceRegistration, //
    },
    mm::virt::VmaNew,
    prelude::*,
    sync::poll::PollTable, //
};

/// The part of a number that names a call: direction, type and number, without the size.
const CALL: u32 = !(kernel::uapi::_IOC_SIZEMASK << kernel::uapi::_IOC_SIZESHIFT);

/// That part of the number of a call of ABI 1.
const fn named(number: u32) -> u32 {
    _IOWR::<()>(uapi::ZERNEL_IOC_MAGIC, number)
}

const INFO: u32 = named(uapi::ZERNEL_NR_INFO);
const LIST: u32 = named(uapi::ZERNEL_NR_LIST);
const HISTOGRAM: u32 = named(uapi::ZERNEL_NR_HISTOGRAM);
const EVENTS: u32 = named(uapi::ZERNEL_NR_EVENTS);
const REMOVE: u32 = named(uapi::ZERNEL_NR_REMOVE);
const CLASS_SET: u32 = named(uapi::ZERNEL_NR_CLASS_SET);
const CLASS_GET: u32 = named(uapi::ZERNEL_NR_CLASS_GET);
const REQUEST_BEGIN: u32 = named(uapi::ZERNEL_NR_REQUEST_BEGIN);
const REQUEST_UPDATE: u32 = named(uapi::ZERNEL_NR_REQUEST_UPDATE);
const TRACK: u32 = named(uapi::ZERNEL_NR_TRACK);
const HINT: u32 = named(uapi::ZERNEL_NR_HINT);
const SUBSCRIBE: u32 = named(uapi::ZERNEL_NR_SUBSCRIBE);
const PROBE: u32 = named(uapi::ZERNEL_NR_PROBE);

impl Client {
    /// A call that is made more rarely than once for a request. Each call states with
    /// [`Self::look`] or [`Self::change`] which files it takes.
    #[inline(never)]
    fn call(&self, call: u32, arg: usize, size: usize) -> Result {
        match call {
            INFO => self.look(arg, size, info::get),
            LIST => self.look(arg, size, list::fill),
            HISTOGRAM => self.look(arg, size, histogram::fill),
            EVENTS => self.look(arg, size, events::start),
            CLASS_GET => self.look(arg, size, class::get),
            CLASS_SET => self.change(arg, size, class::set),
            REQUEST_UPDATE => self.change(arg, size, request::update),
            TRACK => self.change(arg, size, track::track),
            HINT => self.change(arg, size, hint::hint),
            REMOVE => self.change(arg, size, remove::remove),
            SUBSCRIBE => self.check_writable().and_then(|()| {
                let undo = |made: &uapi::zernel_subscribe| remove::forget(self, made.handle);
                abi::call_or_undo(arg, size, |value| subscribe::subscribe(self, value), undo)
            }),
            PROBE => self.check_writable().and_then(|()| {
                let undo = |made: &uapi::zernel_probe| remove::forget(self, made.handle);
                abi::call_or_undo(arg, size, |value| probe::probe(self, value), undo)
            }),
            _ => Err(ENOTTY),
        }
    }

    /// Makes a call that any open file takes.
    fn look<T: Abi>(
        &self,
        arg: usize,
        size: usize,
        make: impl FnOnce(&Self, &mut T) -> Result,
    ) -> Result {
        abi::call(arg, size, |value| make(self, value))
    }

    /// Makes a call that needs a file that is open for writing. If the answer cannot be written, it
    /// stays in force.
    fn change<T: Abi>(
        &self,
        arg: usize,
        size: usize,
        make: impl FnOnce(&Self, &mut T) -> Result,
    ) -> Result {
        self.check_writable()?;
        abi::call(arg, size, |value| make(self, value))
    }

    /// Counts a call that is refused for want of permission or of room in a quota.
    #[cold]
    fn count_denied(error: Error) -> Error {
        if error == EPERM || error == errno::over_quota() {
            // Without a registry nothing is counted.
            let _ = registry::with(|r| r.count_denied());
        }
        error
    }

    fn check_writable(&self) -> Result {
        match self.writable {
            true => Ok(()),
            false => Err(EBADF),
        }
    }
}

#[vtable]
impl MiscDevice for Client {
    type Ptr = Pin<KBox<Self>>;

    fn open(file: &File, _misc: &MiscDeviceRegistration<Self>) -> Result<Self::Ptr> {
        Client::new(miscdev::is_writable(file))
    }

    fn read_iter(kiocb: Kiocb<'_, Self::Ptr>, iov: &mut IovIterDest<'_>) -> Result<usize> {
        let wait = !miscdev::is_nonblocking(&kiocb);
        let stream = kiocb.file().stream.lock().clone();
        let stream = stream.ok_or_else(errno::no_data)?;
        stream::catch_up(&stream);
        stream.read(iov, wait)
    }

    fn mmap(me: Pin<&Self>, _file: &File, vma: &VmaNew) -> Result {
        // One that is open for writing alone never gets here.
        if !me.writable {
            return Err(EACCES);
        }
        me.slots.lock().map(vma).map_err(Client::count_denied)
    }

    fn ioctl(me: Pin<&Self>, _file: &File, cmd: u32, arg: usize) -> Result<isize> {
        if _IOC_TYPE(cmd) != uapi::ZERNEL_IOC_MAGIC {
            return Err(ENOTTY);
        }
        let (call, size) = (cmd & CALL, _IOC_SIZE(cmd));
        // A request takes this one alone, of all calls: it is not to pay for the others.
        match call {
            REQUEST_BEGIN => {
                me.check_writable()?;
                request::begin(&me, arg, size)
            }
            _ => me.call(call, arg, size),
        }
        .map_err(Client::count_denied)?;
        Ok(0)
    }
}

impl miscdev::Device for Client {
    const NAME: &'static CStr = c"zernel";
    // Everybody may lower their own; all else is decided call by call.
    const MODE: u16 = 0o666;

    fn groups() -> miscdev::Groups {
        attributes::groups()
    }

    fn poll(me: Pin<&Self>, file: &File, table: PollTable<'_>) -> Readiness {
        let Ok(stream) = me.stream() else {
            return Readiness::Failed;
        };
        stream::catch_up(&stream);
        match stream.poll(file, &table) {
            State::Stopped => Readiness::Failed,
            State::Empty => Readiness::Idle,
            State::Filled => Readiness::Readable,
        }
    }
}
