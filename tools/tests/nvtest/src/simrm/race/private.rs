// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random calls on clients that one thread alone uses: each answer is known beforehand.

use anyhow::{bail, Context as _, Result};
use bytemuck::{bytes_of_mut, Zeroable};
use testkit::random::Random;

use super::tree::{Kind, Tree};
use crate::lab::GPUS;
use crate::modules::is_stock;
use crate::rm::abi::{class, control, engine, VaspaceParams};
use crate::rm::file::open_node;
use crate::rm::{runtime, status_of, ControlFile, Form, Handle, Status};

/// Clients of a thread, each of a file of its own.
const CLIENTS: usize = 2;
/// Objects of a client, beyond which it is freed with all of them.
const MANY: usize = 60;

/// Fixed handles of a kind: the first and how many.
const fn handles(kind: Kind) -> (u32, u64) {
    match kind {
        Kind::Root => (0, 1),
        Kind::Device => (0xd000_0000, 2),
        Kind::Subdevice => (0x5d00_0000, 2),
        Kind::Vaspace => (0x9f10_0000, 3),
        Kind::Tsg => (0xa06c_0000, 8),
        Kind::Channel => (0xc56f_0000, 12),
        Kind::Engine => (0xc7c0_0000, 12),
    }
}

/// A thread's own files and clients, and what must be there.
pub struct Private {
    random: Random,
    files: Vec<(ControlFile, Handle)>,
    /// The objects that must be there.
    pub tree: Tree,
    /// The process is classed: its compute TSGs are not its to change.
    pub classed: bool,
    /// Keeps the GPUs started.
    _nodes: Vec<std::os::fd::OwnedFd>,
}

impl Private {
    /// Opens files and makes clients.
    pub fn new(seed: u64) -> Result<Self> {
        let nodes = (0..GPUS)
            .map(|gpu| open_node(&format!("/dev/nvidia{gpu}")).context("open a GPU"))
            .collect::<Result<_>>()?;
        let mut this = Self {
            random: Random::new(seed),
            files: Vec::new(),
            tree: Tree::default(),
            classed: false,
            _nodes: nodes,
        };
        for _ in 0..CLIENTS {
            let opened = this.open()?;
            this.files.push(opened);
        }
        Ok(this)
    }

    fn open(&mut self) -> Result<(ControlFile, Handle)> {
        let file = ControlFile::open()?;
        let client = file.client()?;
        self.tree.add_client(client);
        Ok((file, client))
    }

    /// The number of files with a client.
    pub fn files(&self) -> u64 {
        self.files.len() as u64
    }

    /// One random call.
    ///
    /// Errors: an answer is not the one that it must be.
    pub fn step(&mut self) -> Result<()> {
        let which = self.random.below(CLIENTS as u64) as usize;
        let client = self.files[which].1;
        if self.tree.clients[&client].len() > MANY {
            return self.renew_client(which);
        }
        match self.random.below(200) {
            0 => self.renew_file(which),
            1 => self.renew_client(which),
            2..=5 => {
                let device = self.handle(Kind::Device);
                self.free(which, device)
            }
            6..=17 => self.alloc_device(which),
            18..=27 => self.alloc_simple(which, Kind::Subdevice, Kind::Device),
            28..=37 => self.alloc_simple(which, Kind::Vaspace, Kind::Device),
            38..=87 => self.alloc_tsg(which),
            88..=117 => self.alloc_simple(which, Kind::Channel, Kind::Tsg),
            118..=124 => self.alloc_simple(which, Kind::Engine, Kind::Channel),
            125..=159 => {
                let object = self.any_handle();
                self.free(which, object)
            }
            160..=174 => self.dup(which),
            175..=184 => self.set_slice(which),
            _ => self.get_slice(which),
        }
    }

    /// A handle of this kind, or now and then of another one.
    fn handle(&mut self, kind: Kind) -> Handle {
        let kind = if self.random.one_in(20) {
            self.kind()
        } else {
            kind
        };
        let (first, count) = handles(kind);
        Handle(first + self.random.below(count) as u32)
    }

    fn kind(&mut self) -> Kind {
        const KINDS: [Kind; 6] = [
            Kind::Device,
            Kind::Subdevice,
            Kind::Vaspace,
            Kind::Tsg,
            Kind::Channel,
            Kind::Engine,
        ];
        KINDS[self.random.below(KINDS.len() as u64) as usize]
    }

    fn any_handle(&mut self) -> Handle {
        // Mostly what there are many of.
        let kind = match self.random.below(8) {
            0 => self.kind(),
            1..=4 => Kind::Tsg,
            _ => Kind::Channel,
        };
        self.handle(kind)
    }

    /// The handle that a new object is to have: now and then any.
    fn wish(&mut self, kind: Kind) -> Handle {
        if self.random.one_in(12) {
            Handle::NONE
        } else {
            self.handle(kind)
        }
    }

    fn form(&mut self) -> Form {
        Form::ALL[self.random.below(Form::ALL.len() as u64) as usize]
    }

    fn renew_file(&mut self, which: usize) -> Result<()> {
        let opened = self.open()?;
        let (file, client) = std::mem::replace(&mut self.files[which], opened);
        drop(file);
        self.tree.free(client, client);
        Ok(())
    }

    fn renew_client(&mut self, which: usize) -> Result<()> {
        let (file, client) = &self.files[which];
        file.free(*client, *client).context("free a client")?;
        self.tree.free(*client, *client);
        let client = file.client().context("make a client")?;
        self.tree.add_client(client);
        self.files[which].1 = client;
        Ok(())
    }

    fn free(&mut self, which: usize, object: Handle) -> Result<()> {
        let (file, client) = &self.files[which];
        // To free an object that is not there succeeds.
        check("free", file.free(*client, object), Status::OK)?;
        self.tree.free(*client, object);
        Ok(())
    }

    fn alloc_device(&mut self, which: usize) -> Result<()> {
        let wish = self.wish(Kind::Device);
        let form = self.form();
        let gpu = self.random.below(u64::from(GPUS)) as u32;
        let (file, client) = &self.files[which];
        let client = *client;
        let must = self.tree.may_add(client, client, wish, Kind::Device);
        let made = runtime::device(file, form, client, wish, gpu);
        if let Some(object) = check("make a device", made, must)? {
            self.tree.add(client, client, object, Kind::Device, gpu);
        }
        Ok(())
    }

    fn alloc_simple(&mut self, which: usize, kind: Kind, above: Kind) -> Result<()> {
        let (parent, wish, form) = (self.handle(above), self.wish(kind), self.form());
        let (file, client) = &self.files[which];
        let client = *client;
        let must = self.tree.may_add(client, parent, wish, kind);
        let alloc =
            |class, params: &mut [u8]| file.alloc(form, client, parent, wish, class, params);
        let made = match kind {
            Kind::Subdevice => alloc(class::SUBDEVICE, &mut [0; 4]),
            Kind::Vaspace => {
                let mut params = VaspaceParams::zeroed();
                alloc(class::VASPACE, bytes_of_mut(&mut params))
            }
            Kind::Channel => runtime::channel(file, form, client, parent, wish),
            _ => alloc(class::COMPUTE, &mut []),
        };
        if let Some(object) = check("make an object", made, must)? {
            self.tree.add(client, parent, object, kind, 0);
        }
        Ok(())
    }

    fn alloc_tsg(&mut self, which: usize) -> Result<()> {
        let (parent, wish) = (self.handle(Kind::Device), self.wish(Kind::Tsg));
        let vaspace = match self.random.below(3) {
            0 => self.handle(Kind::Vaspace),
            _ => Handle::NONE,
        };
        let engine = match self.random.below(12) {
            0 => 0,
            1..=3 => engine::COPY0,
            _ => engine::GR0,
        };
        let form = self.form();
        let (file, client) = &self.files[which];
        let client = *client;
        let mut must = self.tree.may_add(client, parent, wish, Kind::Tsg);
        if must == Status::OK {
            must = self.tree.may_use(client, wish, vaspace, engine);
        }
        let made = runtime::tsg(file, form, client, parent, wish, vaspace, engine);
        if let Some(object) = check("make a TSG", made, must)? {
            self.tree.add_tsg(client, parent, object, vaspace, engine);
        }
        Ok(())
    }

    fn dup(&mut self, which: usize) -> Result<()> {
        let kind = if self.random.one_in(4) {
            Kind::Vaspace
        } else {
            Kind::Tsg
        };
        let (parent, wish, source) = (
            self.handle(Kind::Device),
            self.wish(kind),
            self.handle(kind),
        );
        let from = self.files[self.random.below(CLIENTS as u64) as usize].1;
        let (file, client) = &self.files[which];
        let client = *client;
        let must = self.tree.may_dup(client, parent, wish, from, source);
        let made = file.dup(client, parent, wish, from, source);
        if let Some(object) = check("duplicate", made, must)? {
            self.tree.dup(client, parent, object, from, source);
        }
        Ok(())
    }

    /// The answer to a control of what `object` stands for, and the group if it is one.
    fn may_control(&self, client: Handle, object: Handle) -> (Status, Option<u64>) {
        match self.tree.get(client, object) {
            None => (Status::OBJECT_NOT_FOUND, None),
            Some(o) if o.lost => (Status::RESOURCE_LOST, None),
            Some(o) if o.kind != Kind::Tsg => (Status::NOT_SUPPORTED, None),
            Some(o) => (Status::OK, Some(o.tsg)),
        }
    }

    fn set_slice(&mut self, which: usize) -> Result<()> {
        let object = self.handle(Kind::Tsg);
        let mut slice = 1 + self.random.below(1_000_000);
        let (file, client) = &self.files[which];
        let (mut must, group) = self.may_control(*client, object);
        let group = group.and_then(|id| self.tree.groups.get_mut(&id));
        if group
            .as_ref()
            .is_some_and(|group| self.classed && group.compute)
        {
            // It would count or not, as zernel had come to it or not.
            if is_stock() {
                return Ok(());
            }
            must = Status::INSUFFICIENT_PERMISSIONS;
        }
        let set = file.control(*client, object, control::SET_TIMESLICE, 0, &mut slice);
        if let (Some(()), Some(group)) = (check("set a slice", set, must)?, group) {
            group.slice_us = slice;
        }
        Ok(())
    }

    fn get_slice(&mut self, which: usize) -> Result<()> {
        let object = self.handle(Kind::Tsg);
        let (file, client) = &self.files[which];
        let (must, group) = self.may_control(*client, object);
        let mut slice = 0u64;
        let get = file.control(*client, object, control::GET_TIMESLICE, 0, &mut slice);
        if check("get a slice", get, must)?.is_none() {
            return Ok(());
        }
        let group = group.and_then(|id| self.tree.groups.get(&id));
        let own = group.context("a slice of nothing")?;
        // Of a classed TSG, zernel decides, and when it comes to it.
        if !(self.classed && own.compute) && slice != own.slice_us {
            bail!("a slice of {slice} us, expected {} us", own.slice_us);
        }
        Ok(())
    }
}

/// The result of a call, if it is the expected one.
fn check<T>(what: &str, result: nvrm::Result<T>, must: Status) -> Result<Option<T>> {
    let (status, value) = match result {
        Ok(value) => (Status::OK, Some(value)),
        Err(error) => (status_of::<T>(Err(error)).context(what.to_owned())?, None),
    };
    if status != must {
        bail!("{what}: the answer is {status:?}, expected {must:?}");
    }
    Ok(value)
}
