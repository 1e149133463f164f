// SPDX-License-Identifier: GPL-2.0
//! An open file of `/dev/zernel-sim`: its contexts, its completions, its trace.
//!
//! Lock order: `reader` is held while user memory is accessed; `contexts` never is, because
//! mapping takes it under the lock of the address space.

use super::{
    context::Context,
    device::Card,
    inbox::Inbox,
    ioctl,
    provider::{
        load_of,
        Hub, //
    },
    user::User,
};
use crate::{
    glue::{
        miscdev::{
            self,
            Readiness, //
        },
        sim::{
            hub,
            words, //
        },
    },
    model::tsg::Handle, //
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
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        poll::PollTable,
        Arc,
        Mutex, //
    }, //
};

/// A context of a file.
#[derive(Clone)]
pub(crate) struct Owned {
    /// Its GPU.
    pub(crate) gpu: u32,
    /// Its TSG.
    pub(crate) tsg: Handle,
    /// The owner's side of it.
    pub(crate) context: Arc<Context>,
}

/// The contexts of a file.
struct Contexts {
    last: u32,
    tree: RBTree<u32, Owned>,
}

/// An open file.
#[pin_data(PinnedDrop)]
pub(crate) struct File {
    /// Number of the file.
    pub(crate) number: u64,
    /// The GPUs.
    pub(crate) hub: Arc<Hub>,
    /// The user that opened it.
    pub(crate) user: Arc<User>,
    /// Completions.
    pub(crate) inbox: Arc<Inbox>,
    #[pin]
    contexts: Mutex<Contexts>,
    /// Held by the one who takes completions or trace records.
    #[pin]
    pub(crate) reader: Mutex<()>,
}

impl File {
    /// A GPU.
    pub(crate) fn card(&self, number: u32) -> Result<&Arc<Card>> {
        self.hub.inner().card(number)
    }

    /// A context of this file.
    ///
    /// # Errors
    ///
    /// `ENOENT`
    pub(crate) fn context(&self, id: u32) -> Result<Owned> {
        self.contexts.lock().tree.get(&id).cloned().ok_or(ENOENT)
    }

    /// Makes a context: `make` gets its id and returns it.
    pub(crate) fn add(&self, make: impl FnOnce(u32) -> Result<Owned>) -> Result<Owned> {
        let reservation = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let mut contexts = self.contexts.lock();
        let id = contexts.last.checked_add(1).ok_or(ENOSPC)?;
        let owned = make(id)?;
        contexts.last = id;
        contexts
            .tree
            .insert(reservation.into_node(id, owned.clone()));
        Ok(owned)
    }

    /// Ends a context.
    ///
    /// # Errors
    ///
    /// `ENOENT`
    pub(crate) fn remove(&self, id: u32) -> Result {
        let owned = self.contexts.lock().tree.remove(&id).ok_or(ENOENT)?;
        self.end(&owned);
        Ok(())
    }

    /// Ends a context that nobody can find any more: `zernel.ko` forgets it first.
    fn end(&self, owned: &Owned) {
        let gpu = u64::from(owned.gpu);
        if let Ok(card) = self.card(owned.gpu) {
            match load_of(card, owned.tsg) {
                Ok(load) => self.hub.tsg_ended(gpu, owned.tsg.0, &load),
                Err(_) => self.hub.tsg_removed(gpu, owned.tsg.0),
            }
            card.destroy(owned.tsg);
        }
        self.user.contexts.release(1);
    }
}

/// Offset at which the words of a context are mapped.
pub(crate) fn mmap_offset(context: u32) -> u64 {
    u64::from(context) * PAGE_SIZE as u64
}

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
