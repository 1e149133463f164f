// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects of a compute runtime: a client, one GPU, its address space, TSGs.

use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use bytemuck::{bytes_of_mut, Zeroable};

use super::abi::{class, control, engine, Card};
use super::abi::{
    ChannelParams, ContextShareParams, DeviceParams, IdInfo, TsgParams, VaspaceParams,
};
use super::file::open_node;
use super::{ControlFile, Form, Handle};

/// The objects that a runtime makes on its way to a TSG.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Which of the driver's GPUs, from 0.
    pub gpu: usize,
    /// It makes a subdevice, as all known runtimes do.
    pub subdevice: bool,
    /// The way in which it makes objects.
    pub form: Form,
}

impl Spec {
    /// As runtimes do it, on GPU 0.
    pub const USUAL: Self = Self {
        gpu: 0,
        subdevice: true,
        form: Form::USUAL,
    };

    /// On that GPU.
    pub const fn on(gpu: usize) -> Self {
        Self { gpu, ..Self::USUAL }
    }
}

/// A client with a GPU. Dropped, its file is closed, and with it all goes.
#[derive(Debug)]
pub struct Runtime {
    /// Its control file.
    pub file: ControlFile,
    /// The GPU's file.
    pub node: OwnedFd,
    /// The driver's description of the GPU.
    pub card: Card,
    /// The client.
    pub client: Handle,
    /// The GPU.
    pub device: Handle,
    /// The GPU, again.
    pub subdevice: Option<Handle>,
    /// Its address space.
    pub vaspace: Handle,
    form: Form,
}

impl Runtime {
    /// One on GPU 0.
    pub fn open() -> Result<Self> {
        Self::with(Spec::USUAL)
    }

    /// As told.
    pub fn with(spec: Spec) -> Result<Self> {
        let file = ControlFile::open().context("open the control file")?;
        Self::on(file, spec)
    }

    /// A client of a file that is open already.
    pub fn on(file: ControlFile, spec: Spec) -> Result<Self> {
        let cards = file.cards().context("ask for the GPUs")?;
        let card = *cards
            .get(spec.gpu)
            .with_context(|| format!("{} GPUs", cards.len()))?;
        let node = open_node(&format!("/dev/nvidia{}", card.minor)).context("open a GPU")?;
        file.bind(rustix::fd::AsFd::as_fd(&node))
            .context("bind the GPU's file")?;
        let client = file.client().context("make a client")?;
        let mut info = IdInfo {
            gpu_id: card.gpu_id,
            ..IdInfo::default()
        };
        file.control(client, client, control::ID_INFO, 0, &mut info)
            .context("ask for the GPU's number")?;
        let device =
            device(&file, spec.form, client, Handle::NONE, info.device).context("make a device")?;
        let mut this = Self {
            file,
            node,
            card,
            client,
            device,
            subdevice: None,
            vaspace: Handle::NONE,
            form: spec.form,
        };
        if spec.subdevice {
            let mut params = 0u32;
            let made = this.make(device, class::SUBDEVICE, bytes_of_mut(&mut params));
            this.subdevice = Some(made.context("make a subdevice")?);
        }
        let mut params = VaspaceParams::zeroed();
        this.vaspace = this
            .make(device, class::VASPACE, bytes_of_mut(&mut params))
            .context("make an address space")?;
        Ok(this)
    }

    /// The PCI address as the kernel writes it.
    pub fn bus(&self) -> String {
        let card = &self.card;
        format!(
            "{:04x}:{:02x}:{:02x}.{}",
            card.domain, card.bus, card.slot, card.function
        )
    }

    /// Makes an object.
    pub fn make(&self, parent: Handle, class: u32, params: &mut [u8]) -> super::Result<Handle> {
        self.file
            .alloc(self.form, self.client, parent, Handle::NONE, class, params)
    }

    /// A TSG on the compute engine.
    pub fn compute(&self) -> super::Result<Handle> {
        self.tsg(engine::GR0)
    }

    /// A TSG.
    pub fn tsg(&self, engine: u32) -> super::Result<Handle> {
        tsg(
            &self.file,
            self.form,
            self.client,
            self.device,
            Handle::NONE,
            self.vaspace,
            engine,
        )
    }

    /// A channel of a group.
    pub fn channel(&self, tsg: Handle) -> super::Result<Handle> {
        channel(&self.file, self.form, self.client, tsg, Handle::NONE)
    }

    /// A part of a group with an address space.
    pub fn context_share(&self, tsg: Handle, vaspace: Handle) -> super::Result<Handle> {
        let mut params = ContextShareParams {
            vaspace: vaspace.0,
            ..ContextShareParams::zeroed()
        };
        self.make(tsg, class::CONTEXT_SHARE, bytes_of_mut(&mut params))
    }

    /// A channel of a part of a group.
    pub fn channel_of_share(&self, tsg: Handle, share: Handle) -> super::Result<Handle> {
        let mut params = ChannelParams {
            context_share: share.0,
            ..ChannelParams::zeroed()
        };
        self.make(tsg, class::CHANNEL, bytes_of_mut(&mut params))
    }

    /// Lets go of an object and all below it.
    pub fn free(&self, object: Handle) -> super::Result<()> {
        self.file.free(self.client, object)
    }

    /// The time slice in microseconds that the driver holds.
    pub fn timeslice(&self, tsg: Handle) -> super::Result<u64> {
        let mut slice = 0;
        self.control(tsg, control::GET_TIMESLICE, &mut slice)?;
        Ok(slice)
    }

    /// Asks the driver for a time slice in microseconds.
    pub fn set_timeslice(&self, tsg: Handle, mut slice: u64) -> super::Result<()> {
        self.control(tsg, control::SET_TIMESLICE, &mut slice)
    }

    /// The number of the group on its run list.
    pub fn number(&self, tsg: Handle) -> super::Result<u32> {
        let mut number = 0;
        self.control(tsg, control::GET_INFO, &mut number)?;
        Ok(number)
    }

    /// Controls an object.
    pub fn control<T: bytemuck::Pod>(
        &self,
        object: Handle,
        cmd: u32,
        params: &mut T,
    ) -> super::Result<()> {
        self.file.control(self.client, object, cmd, 0, params)
    }
}

/// Makes a device: the GPU of that number.
pub fn device(
    file: &ControlFile,
    form: Form,
    client: Handle,
    wish: Handle,
    instance: u32,
) -> super::Result<Handle> {
    let mut params = DeviceParams {
        instance,
        ..DeviceParams::zeroed()
    };
    let params = bytes_of_mut(&mut params);
    file.alloc(form, client, client, wish, class::DEVICE, params)
}

/// Makes a TSG.
pub fn tsg(
    file: &ControlFile,
    form: Form,
    client: Handle,
    device: Handle,
    wish: Handle,
    vaspace: Handle,
    engine: u32,
) -> super::Result<Handle> {
    let mut params = TsgParams {
        vaspace: vaspace.0,
        engine,
        ..TsgParams::zeroed()
    };
    let params = bytes_of_mut(&mut params);
    file.alloc(form, client, device, wish, class::TSG, params)
}

/// Makes a channel.
pub fn channel(
    file: &ControlFile,
    form: Form,
    client: Handle,
    tsg: Handle,
    wish: Handle,
) -> super::Result<Handle> {
    let mut params = ChannelParams::zeroed();
    let params = bytes_of_mut(&mut params);
    file.alloc(form, client, tsg, wish, class::CHANNEL, params)
}
