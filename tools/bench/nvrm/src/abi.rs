// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and layouts of the driver's interface, as far as a compute runtime uses them.

use bytemuck::{Pod, Zeroable};

/// Numbers of calls.
pub mod escape {
    /// Free an object and all below it.
    pub const FREE: u32 = 0x29;
    /// Control an object.
    pub const CONTROL: u32 = 0x2a;
    /// Make an object.
    pub const ALLOC: u32 = 0x2b;
    /// Give an object of another client a handle here.
    pub const DUP: u32 = 0x34;
    /// The list of GPUs.
    pub const CARD_INFO: u32 = 200;
    /// Bind a GPU's file to a control file.
    pub const REGISTER_FD: u32 = 201;
    /// Any other call, with its structure elsewhere.
    pub const XFER: u32 = 211;
}

/// Classes of objects.
pub mod class {
    /// Client.
    pub const ROOT: u32 = 0x41;
    /// Its older names.
    pub const ROOTS: [u32; 3] = [0x00, 0x01, 0x41];
    /// GPU.
    pub const DEVICE: u32 = 0x80;
    /// GPU, again.
    pub const SUBDEVICE: u32 = 0x2080;
    /// Address space.
    pub const VASPACE: u32 = 0x90f1;
    /// Channel group.
    pub const TSG: u32 = 0xa06c;
    /// Part of a TSG with an address space of its own.
    pub const CONTEXT_SHARE: u32 = 0x9067;
    /// Memory of the GPU.
    pub const MEMORY: u32 = 0x40;
    /// Channel.
    pub const CHANNEL: u32 = 0xc56f;
    /// Compute engine on a channel.
    pub const COMPUTE: u32 = 0xc7c0;
    /// Copy engine on a channel.
    pub const COPY: u32 = 0xc7b5;
    /// That the client carries the work of other processes.
    pub const MPS: u32 = 0x900e;
    /// Part of a GPU.
    pub const MIG_GPU: u32 = 0xc637;
    /// A compute instance of that.
    pub const MIG_COMPUTE: u32 = 0xc638;
}

/// Numbers of controls.
pub mod control {
    /// Time slice: u64 microseconds.
    pub const SET_TIMESLICE: u32 = 0xa06c_0103;
    /// Time slice: u64 microseconds.
    pub const GET_TIMESLICE: u32 = 0xa06c_0104;
    /// Number of the TSG on its run list: u32.
    pub const GET_INFO: u32 = 0xa06c_0106;
    /// Interleave level: u32.
    pub const SET_INTERLEAVE: u32 = 0xa06c_0107;
    /// Let it run: one byte and two more.
    pub const SCHEDULE: u32 = 0xa06c_0101;
    /// Disable channels, or enable them: see [`super::DisableChannels`].
    pub const DISABLE_CHANNELS: u32 = 0x2080_110b;
    /// The policy with which levels count: see [`super::Policy`].
    pub const RUNLIST_POLICY: u32 = 0x2080_1115;
    /// Run lists of engines, by their registers.
    pub const RUNLIST_BASES: u32 = 0x2080_0179;
    /// Engines, their run lists and registers, for the kernel alone.
    pub const DEVICE_TABLE: u32 = 0x2080_1112;
    /// Numbers of channels on their run lists, for the kernel alone.
    pub const CHANNEL_LIST: u32 = 0x0080_170d;
    /// Take the engine away: see [`super::Preempt`].
    pub const PREEMPT: u32 = 0xa06c_0105;
    /// Let a channel run: as [`SCHEDULE`].
    pub const CHANNEL_SCHEDULE: u32 = 0xa06f_0103;
    /// The same by another number.
    pub const CHANNEL_SCHEDULE_VOLTA: u32 = 0xc36f_0103;
    /// End the running slice, and begin anew with the run list of a channel: two bytes.
    pub const RESTART_RUNLIST: u32 = 0xa06f_0111;
    /// Have a channel run no more: one byte.
    pub const STOP_CHANNEL: u32 = 0xa06f_0112;
    /// GPUs that there are, by number: 32 u32.
    pub const ATTACHED_IDS: u32 = 0x201;
    /// The identity of a GPU: see [`super::IdInfo`].
    pub const ID_INFO: u32 = 0x205;
    /// The number by which records of context switches name a channel.
    pub const CONTEXT: u32 = 0xa06f_0113;
    /// The clock of a GPU.
    pub const TIME: u32 = 0x2080_0403;
    /// Have the context switches of a GPU written to an event buffer.
    pub const BIND_SWITCHES: u32 = 0x2080_1238;
    /// Have an event buffer take events.
    pub const RING_ENABLE: u32 = 0x90cd_0101;
    /// The reader of an event buffer has come to a record.
    pub const RING_GET: u32 = 0x90cd_0102;
    /// Have a GPU's records of context switches written now.
    pub const RING_FLUSH: u32 = 0x90cd_0104;
    /// Memory of the caller, pinned for a GPU: see [`super::Pin`]. simrm has it alone.
    pub const PIN: u32 = 0x7a01;

    /// The parameters are in another form than the plain structure.
    pub const SERIALIZED: u32 = 4;
}

/// Engine types.
pub mod engine {
    /// Compute and graphics.
    pub const GR0: u32 = 1;
    /// The first of the copy engines.
    pub const COPY0: u32 = 9;
}

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident = $size:literal { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Debug, Clone, Copy, Pod, Zeroable)]
            pub struct $name {
                $(pub $field: $type,)*
            }

            impl Default for $name {
                fn default() -> Self {
                    Self::zeroed()
                }
            }

            const _: () = assert!(size_of::<$name>() == $size);
        )*
    };
}

layouts! {
    /// [`escape::FREE`].
    Free = 16 { root: u32, parent: u32, object: u32, status: u32, }

    /// The short form of [`escape::ALLOC`] (`NVOS21`).
    AllocShort = 32 {
        root: u32, parent: u32, object: u32, class: u32, params: u64, size: u32, status: u32,
    }

    /// The long form of [`escape::ALLOC`] (`NVOS64`).
    AllocLong = 48 {
        root: u32, parent: u32, object: u32, class: u32, params: u64, rights: u64, size: u32,
        flags: u32, status: u32, pad: u32,
    }

    /// [`escape::CONTROL`].
    Control = 32 {
        client: u32, object: u32, cmd: u32, flags: u32, params: u64, size: u32, status: u32,
    }

    /// Parameters of [`control::PIN`].
    Pin = 32 { address: u64, count: u64, word: u64, action: u32, value: u32, }

    /// [`escape::DUP`].
    Dup = 28 {
        client: u32, parent: u32, object: u32, source_client: u32, source_object: u32, flags: u32,
        status: u32,
    }

    /// [`escape::XFER`].
    Xfer = 16 { cmd: u32, size: u32, pointer: u64, }

    /// One GPU of [`escape::CARD_INFO`].
    Card = 72 {
        valid: u8, pad0: [u8; 3], domain: u32, bus: u8, slot: u8, function: u8, pad1: u8,
        vendor: u16, device: u16, gpu_id: u32, interrupt: u16, pad2: [u8; 2], registers: u64,
        registers_size: u64, memory: u64, memory_size: u64, minor: u32, name: [u8; 10],
        pad3: [u8; 2],
    }

    /// Parameters of a device.
    DeviceParams = 56 {
        instance: u32, client_share: u32, target_client: u32, target_device: u32, flags: u32,
        pad0: u32, size: u64, start: u64, end: u64, mode: u32, pad1: u32,
    }

    /// Parameters of a TSG.
    TsgParams = 20 { error: u32, ecc_error: u32, vaspace: u32, engine: u32, plugin: u32, }

    /// Parameters of an address space.
    VaspaceParams = 48 {
        index: u32, flags: u32, size: u64, start: u64, limit: u64, page_size: u32, pad0: u32,
        base: u64,
    }

    /// Parameters of a context share.
    ContextShareParams = 12 { vaspace: u32, flags: u32, subcontext: u32, }

    /// Beginning of the parameters of a channel; the rest is zero.
    ChannelParams = 368 {
        error: u32, buffer: u32, offset: u64, entries: u32, flags: u32, context_share: u32,
        vaspace: u32, memory: [u32; 8], offsets: [u64; 8], engine: u32, id: u32, rest: [u32; 32], tail: [u32; 26],
    }

    /// Parameters of a MIG instance.
    MigParams = 16 { capability: u64, id: u32, pad: u32, }

    /// Parameters of [`control::DISABLE_CHANNELS`].
    DisableChannels = 536 {
        disable: u32, count: u32, only_scheduling: u8, rewind: u8, pad: [u8; 6], event: u64,
        clients: [u32; 64], channels: [u32; 64],
    }

    /// Parameters of [`control::RUNLIST_POLICY`].
    Policy = 8 { flags: u32, policy: u32, }

    /// Parameters of [`control::PREEMPT`].
    Preempt = 8 { wait: u8, manual: u8, pad: u16, timeout_us: u32, }

    /// Parameters of [`control::DEVICE_TABLE`].
    DeviceTable = 3212 { base: u32, count: u32, more: u32, entries: [[u32; 25]; 32], }

    /// Parameters of [`control::CHANNEL_LIST`].
    ChannelList = 24 { count: u32, pad: u32, handles: u64, ids: u64, }

    /// [`control::ID_INFO`].
    IdInfo = 32 {
        gpu_id: u32, flags: u32, device: u32, subdevice: u32, sli: u32, board: u32, instance: u32,
        node: u32,
    }
}
