// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices.

use std::ffi::{c_char, c_int};

use crate::cost::{BLOCKS, THREADS};
use crate::driver::{driver, Device};
use crate::knobs::knobs;
use crate::status::{Result, Status};
use crate::sys::args::{functions, Out, Text};

functions! {
    cuDeviceGet(device: Out<c_int>, number: c_int) {
        driver()?.device(number)?;
        device.set(number)
    }

    cuDeviceGetCount(count: Out<c_int>) {
        count.set(driver()?.devices.len() as c_int)
    }

    cuDeviceGetName(name: Out<c_char>, room: c_int, device: c_int) {
        let device = driver()?.device(device)?;
        name.set_text(&format!("software GPU {}", device.info.preset), room)
    }

    cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: c_int) {
        uuid.set(driver()?.device(device)?.uuid)
    }

    cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: c_int) {
        let mut own = driver()?.device(device)?.uuid;
        if knobs().mig {
            // This form has that of the instance, the older one that of the whole GPU.
            own[..3].copy_from_slice(b"MIG");
        }
        uuid.set(own)
    }

    cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) {
        driver()?.device(device)?;
        bytes.set(knobs().memory as usize)
    }

    cuDeviceGetAttribute(value: Out<c_int>, attribute: c_int, device: c_int) {
        let device = driver()?.device(device)?;
        value.set(self::attribute(device, attribute)?)
    }

    cuDeviceGetPCIBusId(bus: Out<c_char>, room: c_int, device: c_int) {
        bus.set_text(&driver()?.device(device)?.bus, room)
    }

    cuDeviceGetByPCIBusId(device: Out<c_int>, bus: Text) {
        let (driver, bus) = (driver()?, bus.get()?);
        let found = driver.devices.iter().find(|device| device.bus.eq_ignore_ascii_case(&bus));
        device.set(found.ok_or(Status::INVALID_DEVICE)?.number as c_int)
    }

    cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, device: c_int) {
        let capability = capability(driver()?.device(device)?);
        minor.check()?;
        major.set(capability.0)?;
        minor.set(capability.1)
    }

    cuDeviceCanAccessPeer(can: Out<c_int>, device: c_int, peer: c_int) {
        let driver = driver()?;
        driver.device(device).and(driver.device(peer))?;
        can.set(0)
    }
}

/// The compute capability of the product that the software GPU is like.
fn capability(device: &Device) -> (c_int, c_int) {
    match device.info.preset.as_str() {
        "a100" => (8, 0),
        "l4" | "rtx4090" => (8, 9),
        _ => (9, 0),
    }
}

/// An attribute by its number in cuda.h; one that is not known here is 0.
fn attribute(device: &Device, attribute: c_int) -> Result<c_int> {
    /// The last one of CUDA 13.5.
    const LAST: c_int = 161;
    let has_memory_operations = c_int::from(!knobs().no_memops);
    Ok(match attribute {
        1..=3 => 1_024,
        4 => 64,
        5 => c_int::MAX,
        6 | 7 => 65_535,
        8 => 48 << 10,
        9 => 64 << 10,
        10 => 32,
        11 => c_int::MAX,
        12 | 82 => 64 << 10,
        13 => 1_500_000,
        14 => 512,
        // A copy runs beside a kernel.
        15 => c_int::from(device.info.copy_engines > 0),
        16 => device.info.sms as c_int,
        19 | 31 | 41 | 78 | 90 | 95 | 98 | 99 => 1,
        34 => device.number as c_int,
        36 => 2_000_000,
        37 => 5_120,
        38 => 50 << 20,
        39 => THREADS as c_int,
        40 => device.info.copy_engines as c_int,
        51 => 32,
        75 => capability(device).0,
        76 => capability(device).1,
        81 | 97 => 100 << 10,
        106 => BLOCKS as c_int,
        111 => 1 << 10,
        // Of the second form; the first form (92 to 94) is off, as in current drivers.
        122 | 123 => has_memory_operations,
        // No NUMA node of the host is known.
        131 | 134 => -1,
        133 => c_int::from(knobs().mps),
        other if (1..=LAST).contains(&other) => 0,
        _ => return Err(Status::INVALID_VALUE),
    })
}
