// SPDX-License-Identifier: GPL-2.0
//! All software GPUs, and the users that have the device open.

use super::{
    device::{
        Card,
        Device, //
    },
    settings::Settings,
    user::Users, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
    }, //
};

/// All software GPUs.
#[pin_data]
pub(crate) struct Sim {
    /// The module parameters.
    pub(crate) settings: Settings,
    cards: KVec<Arc<Card>>,
    /// The users that have the device open.
    #[pin]
    pub(crate) users: Users,
    serial: Atomic<u64>,
    files: Atomic<u64>,
}

impl Sim {
    /// Makes the GPUs.
    pub(crate) fn new(settings: Settings) -> Result<Arc<Self>> {
        let mut cards = KVec::with_capacity(settings.gpus as usize, GFP_KERNEL)?;
        for number in 0..settings.gpus {
            cards.push(Device::new(number, &settings)?, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                settings,
                cards,
                users <- Users::new(),
                serial: Atomic::new(0),
                files: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// All GPUs.
    pub(crate) fn cards(&self) -> &[Arc<Card>] {
        &self.cards
    }

    /// The GPU with number `number`.
    ///
    /// # Errors
    ///
    /// `ENOENT`
    pub(crate) fn card(&self, number: u32) -> Result<&Arc<Card>> {
        self.cards().get(number as usize).ok_or(ENOENT)
    }

    /// A serial number for a TSG, from 1.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// A number for a file, from 1.
    pub(crate) fn next_file(&self) -> u64 {
        self.files.fetch_add(1, Relaxed).wrapping_add(1)
    }
}
