// SPDX-License-Identifier: GPL-2.0
//! An open file of `/dev/zernel`, and what it owns.

use super::handles::Handles;
use crate::{
    glue::identity::Viewer,
    prefetch::file::Subscriptions,
    slots::Slots,
    stream::{
        self,
        Stream, //
    },
    tracking::probes::Probes, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// An open file.
#[pin_data(PinnedDrop)]
pub(crate) struct Client {
    /// The opener: the stream has its view.
    viewer: Arc<Viewer>,
    /// It is open for writing: calls that change something are taken.
    pub(super) writable: bool,
    #[pin]
    pub(super) stream: Mutex<Option<Arc<Stream>>>,
    #[pin]
    pub(super) slots: Mutex<Slots>,
    #[pin]
    pub(super) subscriptions: Mutex<Subscriptions>,
    #[pin]
    pub(super) probes: Mutex<Probes>,
    /// The handles of both.
    pub(super) handles: Handles,
}

impl Client {
    /// An open file of the caller.
    pub(super) fn new(writable: bool) -> Result<Pin<KBox<Self>>> {
        let viewer = Arc::new(Viewer::current(), GFP_KERNEL_ACCOUNT)?;
        KBox::pin_init(
            pin_init!(Self {
                viewer,
                writable,
                stream <- new_mutex!(None, "zernel_client"),
                slots <- new_mutex!(Slots::new(), "zernel_slots"),
                subscriptions <- new_mutex!(Subscriptions::new(), "zernel_subscriptions"),
                probes <- new_mutex!(Probes::new(), "zernel_probes"),
                handles: Handles::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The stream, which the first use makes, and EVENTS starts.
    pub(super) fn stream(&self) -> Result<Arc<Stream>> {
        self.stream_in(&mut self.stream.lock())
    }

    pub(super) fn stream_in(&self, slot: &mut Option<Arc<Stream>>) -> Result<Arc<Stream>> {
        if let Some(stream) = slot {
            return Ok(stream.clone());
        }
        let stream = Stream::new(self.viewer.clone())?;
        *slot = Some(stream.clone());
        Ok(stream)
    }
}

#[pinned_drop]
impl PinnedDrop for Client {
    fn drop(self: Pin<&mut Self>) {
        if let Some(stream) = self.stream.lock().take() {
            stream::forget(&stream);
        }
    }
}
