// SPDX-License-Identifier: GPL-2.0
//! `/dev/zernel-sim` is opened, mapped, polled and closed.

use super::{
    file::{
        Contexts,
        File, //
    },
    hub,
    inbox::Inbox,
    ioctl, //
};
use crate::glue::{
    miscdev::{
        self,
        Readiness, //
    },
    sim::words, //
};
use kernel::{
    fs::File as VfsFile,
    miscdevice::{
        MiscDevice,
        MiscDeviceRegistration, //
    },
    mm::virt::VmaNew,
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    rbtree::RBTree,
    sync::poll::PollTable, //
};

#[pinned_drop]
impl PinnedDrop for File {
    fn drop(self: Pin<&mut Self>) {
        let tree = core::mem::replace(&mut self.contexts.lock().tree, RBTree::new());
        for owned in tree.values() {
            self.end(owned);
        }
        ioctl::trace::stop(&self);
        self.hub.inner().users.leave(&self.user);
    }
}

#[vtable]
impl MiscDevice for File {
    type Ptr = Pin<KBox<Self>>;

    fn open(_file: &VfsFile, _misc: &MiscDeviceRegistration<Self>) -> Result<Self::Ptr> {
        let hub = hub::get()?;
        let inbox = Inbox::new()?;
        let user = hub.inner().users.enter()?;
        let number = hub.inner().next_file();
        let (keep, leaver) = (hub.clone(), user.clone());
        let file = KBox::pin_init(
            pin_init!(Self {
                number,
                hub,
                user,
                inbox,
                contexts <- new_mutex!(
                    Contexts { last: 0, tree: RBTree::new() },
                    "zernel_sim_contexts"
                ),
                reader <- new_mutex!((), "zernel_sim_reader"),
            }),
            GFP_KERNEL_ACCOUNT,
        );
        if file.is_err() {
            keep.inner().users.leave(&leaver);
        }
        file
    }

    fn mmap(file: Pin<&Self>, _vfs: &VfsFile, vma: &VmaNew) -> Result {
        let offset = words::offset(vma);
        let id = u32::try_from(offset / PAGE_SIZE as u64).map_err(|_| EINVAL)?;
        let owned = file.context(id).map_err(|_| EINVAL)?;
        owned.context.words.map(vma)
    }

    fn ioctl(file: Pin<&Self>, _vfs: &VfsFile, cmd: u32, arg: usize) -> Result<isize> {
        ioctl::dispatch(&file, cmd, arg).map(|()| 0)
    }
}

impl miscdev::Device for File {
    const NAME: &'static CStr = c"zernel-sim";
    const MODE: u16 = 0o666;

    fn poll(file: Pin<&Self>, vfs: &VfsFile, table: PollTable<'_>) -> Readiness {
        table.register_wait(vfs, &file.inbox.readable);
        if file.inbox.is_readable() {
            Readiness::Readable
        } else {
            Readiness::Idle
        }
    }
}
