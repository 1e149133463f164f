// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random calls on clients that all threads use at once, by handles that are used again and again.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::{bail, Context as _, Result};
use bytemuck::{bytes_of_mut, Zeroable};
use testkit::random::Random;

use crate::lab::GPUS;
use crate::rm::abi::{class, control, engine, VaspaceParams};
use crate::rm::{runtime, status_of, ControlFile, Form, Handle, Status};

/// Files that the threads share.
const FILES: usize = 3;
/// Clients of each.
const CLIENTS: usize = 2;

/// Handles of each kind: few, so that threads meet.
const DEVICES: u64 = 2;
const VASPACES: u64 = 2;
const TSGS: u64 = 5;
const CHANNELS: u64 = 6;

/// Answers that can come of a race; anything else is a fault.
const POSSIBLE: [Status; 11] = [
    Status::OK,
    Status::INSERT_DUPLICATE_NAME,
    Status::INVALID_ARGUMENT,
    Status::INVALID_CLIENT,
    Status::INVALID_OBJECT_HANDLE,
    Status::INVALID_OBJECT_PARENT,
    Status::INVALID_STATE,
    Status::NOT_SUPPORTED,
    Status::OBJECT_NOT_FOUND,
    Status::RESOURCE_LOST,
    // Of a classed TSG, which is not its owner's to change.
    Status::INSUFFICIENT_PERMISSIONS,
];

/// A file and its clients. Closed when the last thread has let it go.
struct Place {
    file: ControlFile,
    clients: [Mutex<Handle>; CLIENTS],
}

impl Place {
    fn new() -> Result<Self> {
        let file = ControlFile::open()?;
        let clients = [Mutex::new(file.client()?), Mutex::new(file.client()?)];
        Ok(Self { file, clients })
    }

    fn client(&self, which: usize) -> Handle {
        *self.clients[which]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The objects that the threads share.
pub struct Shared {
    places: Vec<RwLock<Arc<Place>>>,
}

impl Shared {
    /// Opens the files and makes the clients.
    pub fn new() -> Result<Self> {
        let places = (0..FILES)
            .map(|_| Ok(RwLock::new(Arc::new(Place::new()?))))
            .collect::<Result<_>>()?;
        Ok(Self { places })
    }

    /// The number of files and clients that must be there when nothing is under way.
    pub fn counts(&self) -> (u64, u64) {
        (FILES as u64, (FILES * CLIENTS) as u64)
    }

    /// True if a client is one of these.
    pub fn has(&self, client: Handle) -> bool {
        (0..FILES).any(|place| {
            let place = self.place(place);
            (0..CLIENTS).any(|which| place.client(which) == client)
        })
    }

    fn place(&self, which: usize) -> Arc<Place> {
        self.places[which]
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// One random call.
    ///
    /// Errors: an answer that no race explains.
    pub fn step(&self, random: &mut Random) -> Result<()> {
        let which = random.below(FILES as u64) as usize;
        let place = self.place(which);
        let slot = random.below(CLIENTS as u64) as usize;
        let client = place.client(slot);
        let file = &place.file;
        let form = Form::ALL[random.below(Form::ALL.len() as u64) as usize];
        let device = Handle(0xd000_0000 + random.below(DEVICES) as u32);
        let vaspace = Handle(0x9f10_0000 + random.below(VASPACES) as u32);
        let tsg = Handle(0xa06c_0000 + random.below(TSGS) as u32);
        let channel = Handle(0xc56f_0000 + random.below(CHANNELS) as u32);
        let answer = match random.below(400) {
            0 => return self.renew_file(which),
            1 => return renew_client(&place, slot),
            2..=7 => status_of(file.free(client, device)),
            8..=13 => status_of(file.free(client, vaspace)),
            14..=45 => {
                let gpu = random.below(u64::from(GPUS)) as u32;
                status_of(runtime::device(file, form, client, device, gpu))
            }
            46..=60 => {
                let wish = Handle(0x5d00_0000 + random.below(2) as u32);
                let made = file.alloc(form, client, device, wish, class::SUBDEVICE, &mut [0; 4]);
                status_of(made)
            }
            61..=80 => {
                let mut params = VaspaceParams::zeroed();
                let params = bytes_of_mut(&mut params);
                status_of(file.alloc(form, client, device, vaspace, class::VASPACE, params))
            }
            81..=170 => {
                let vaspace = if random.one_in(3) {
                    vaspace
                } else {
                    Handle::NONE
                };
                let engine = if random.one_in(4) {
                    engine::COPY0
                } else {
                    engine::GR0
                };
                let made = runtime::tsg(file, form, client, device, tsg, vaspace, engine);
                status_of(made)
            }
            171..=230 => status_of(runtime::channel(file, form, client, tsg, channel)),
            231..=240 => {
                let wish = Handle(0xc7c0_0000);
                status_of(file.alloc(form, client, channel, wish, class::COMPUTE, &mut []))
            }
            241..=290 => status_of(file.free(client, tsg)),
            291..=320 => status_of(file.free(client, channel)),
            321..=350 => {
                let other = self.place(random.below(FILES as u64) as usize);
                let from = other.client(random.below(CLIENTS as u64) as usize);
                let source = Handle(0xa06c_0000 + random.below(TSGS) as u32);
                status_of(file.dup(client, device, tsg, from, source))
            }
            351..=370 => {
                let mut slice = 1 + random.below(100_000);
                status_of(file.control(client, tsg, control::SET_TIMESLICE, 0, &mut slice))
            }
            _ => status_of(file.control(client, tsg, control::GET_TIMESLICE, 0, &mut 0u64)),
        };
        let status = answer.context("a call on a shared client")?;
        if !POSSIBLE.contains(&status) {
            bail!("a call on a shared client is answered {status:?}");
        }
        Ok(())
    }

    fn renew_file(&self, which: usize) -> Result<()> {
        let new = Arc::new(Place::new()?);
        let mut place = self.places[which]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *place, new);
        drop(place);
        drop(old);
        Ok(())
    }
}

/// Frees a client while others use it, and makes another one in its place.
fn renew_client(place: &Place, slot: usize) -> Result<()> {
    let mut client = place.clients[slot]
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    place.file.free(*client, *client).context("free a client")?;
    *client = place.file.client().context("make a client")?;
    Ok(())
}
