// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library itself, and its devices.

use std::ffi::CString;
use std::fs::File;
use std::path::Path;

use anyhow::{ensure, Context as _, Result};
use libzernel::Zernel;
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};

use super::lab::{LOADED, UNLOADED};
use crate::sys::{redirect_errors, Cuda};

/// With the software GPU.
pub const SUITE: Suite = Suite::new(
    "fakecuda.device",
    &[
        case("devices_are_those_of_zernel", devices_are_those_of_zernel),
        case("attributes_are_those_of_the_preset", attributes),
        case("nothing_works_before_initialisation", before_initialisation),
        case("functions_are_found_by_name_and_version", functions),
        case("a_symbol_can_be_absent", a_symbol_can_be_absent),
        case("the_version_can_be_older", the_version_can_be_older),
        case("what_is_lacking_is_not_supported", what_is_lacking),
    ],
    LOADED,
);

/// Without it.
pub const WITHOUT: Suite = Suite::new(
    "fakecuda.without",
    &[case("there_is_no_device", there_is_no_device)],
    UNLOADED,
);

fn text(bytes: &[u8]) -> Result<String> {
    let end = bytes.iter().position(|&byte| byte == 0).context("no end")?;
    Ok(String::from_utf8(bytes[..end].to_vec())?)
}

fn devices_are_those_of_zernel() -> Outcome {
    let cuda = Cuda::open()?;
    let mut count = 0;
    cuda.device_count(&mut count).ok()?;
    check_eq!(count, 2);
    let gpus: Vec<_> = Zernel::open()?.gpus().collect::<libzernel::Result<_>>()?;
    for number in 0..count {
        let (mut device, mut found) = (-1, -1);
        cuda.device_get(&mut device, number).ok()?;
        let (mut bus, mut uuid, mut name) = ([0; 64], [0; 16], [0; 64]);
        cuda.device_bus(&mut bus, 64, device).ok()?;
        cuda.device_uuid(&mut uuid, device).ok()?;
        cuda.device_name(&mut name, 64, device).ok()?;
        let bus = text(&bus)?;
        let gpu = gpus.iter().find(|gpu| gpu.bus == bus);
        let gpu = gpu.with_context(|| format!("zernel has no GPU at {bus}"))?;
        check_eq!(gpu.uuid.map(|uuid| *uuid.as_bytes()), Some(uuid));
        ensure!(text(&name)?.starts_with("software GPU "));
        cuda.device_by_bus(&mut found, CString::new(bus)?.as_ptr())
            .ok()?;
        check_eq!(found, device);
    }
    let mut device = -1;
    cuda.device_get(&mut device, count).is(101)?;
    cuda.device_get(&mut device, -1).is(101)?;
    cuda.device_by_bus(&mut device, c"0000:99:00.0".as_ptr())
        .is(101)?;
    cuda.device_bus(&mut [0; 64], 0, 0).is(1)?;
    check_eq!(device, -1);
    Ok(())
}

fn attributes() -> Outcome {
    let cuda = Cuda::open()?;
    let attribute = |number| -> Result<i32> {
        let mut value = -1;
        cuda.device_attribute(&mut value, number, 0).ok()?;
        Ok(value)
    };
    ensure!(attribute(16)? > 0, "multiprocessors");
    check_eq!((attribute(19)?, attribute(41)?, attribute(91)?), (1, 1, 0));
    // Stream memory operations: the first form is off.
    check_eq!((attribute(92)?, attribute(93)?, attribute(94)?), (0, 0, 0));
    // Windows' driver, textures and pools are not there, cooperative launches are.
    check_eq!(
        (
            attribute(35)?,
            attribute(23)?,
            attribute(115)?,
            attribute(95)?
        ),
        (0, 0, 0, 1)
    );
    check_eq!((attribute(122)?, attribute(123)?), (1, 1));
    ensure!((7..=12).contains(&attribute(75)?), "capability");
    let mut bytes = 0;
    cuda.device_memory(&mut bytes, 0).ok()?;
    check_eq!(bytes, 80 << 30);
    cuda.device_attribute(&mut 0, 0, 0).is(1)?;
    cuda.device_attribute(&mut 0, 16, 2).is(101)
}

fn before_initialisation() -> Outcome {
    let cuda = Cuda::load()?;
    cuda.device_count(&mut 0).is(3)?;
    cuda.context_get(&mut 0).is(3)?;
    cuda.synchronize().is(3)?;
    let mut version = 0;
    cuda.driver_version(&mut version).ok()?;
    check_eq!(version, 12_080);
    cuda.init(1).is(1)?;
    check_eq!(cuda.name_of(700)?, "CUDA_ERROR_ILLEGAL_ADDRESS");
    check_eq!(cuda.name_of(910)?, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE");
    cuda.error_name(123_456, &mut std::ptr::null()).is(1)?;
    cuda.init(0).ok()?;
    cuda.init(0).ok()?;
    cuda.synchronize().is(201)
}

fn functions() -> Outcome {
    let cuda = Cuda::open()?;
    let find = |name: &str, version, flags| -> Result<(i32, usize, i32)> {
        let (mut found, mut status) = (1, -1);
        let name = CString::new(name)?;
        let outcome = cuda.proc_address(name.as_ptr(), &mut found, version, flags, &mut status);
        Ok((outcome.status, found, status))
    };
    let (status, stream_query, query) = find("cuStreamQuery", 12_080, 0)?;
    check_eq!((status, query), (0, 0));
    let per_thread = find("cuStreamQuery", 12_080, 2)?.1;
    ensure!(per_thread != stream_query);
    cuda.call_by_address(stream_query, 0).is(201)?;
    // That there is none is told by the status alone.
    check_eq!(find("cuMemAllocAsync", 11_010, 0)?, (0, 0, 2));
    check_eq!(find("cuMakeCoffee", 12_080, 0)?, (0, 0, 1));
    check_eq!(find("cuMemAlloc_v2", 12_080, 0)?, (0, 0, 1));
    check_eq!(find("cuInit", 12_090, 0)?.0, 1);
    check_eq!(find("cuInit", 12_080, 8)?.0, 1);
    // One that is lacking is found.
    check_eq!(find("cuArrayCreate", 12_080, 0)?.0, 0);
    Ok(())
}

fn a_symbol_can_be_absent() -> Outcome {
    std::env::set_var("FAKECUDA_ABSENT", "cuStreamQuery,cuMemAlloc");
    let cuda = Cuda::open()?;
    for (name, is_absent) in [
        (c"cuStreamQuery", true),
        (c"cuMemAlloc", true),
        (c"cuMemFree", false),
    ] {
        let (mut found, mut status) = (1, -1);
        cuda.proc_address(name.as_ptr(), &mut found, 12_080, 0, &mut status)
            .ok()?;
        check_eq!((found == 0, status), (is_absent, i32::from(is_absent)));
    }
    Ok(())
}

fn the_version_can_be_older() -> Outcome {
    std::env::set_var("FAKECUDA_DRIVER", "11040");
    let cuda = Cuda::open()?;
    let (mut version, mut found, mut status) = (0, 1, -1);
    cuda.driver_version(&mut version).ok()?;
    check_eq!(version, 11_040);
    let name = c"cuStreamGetId".as_ptr();
    cuda.proc_address(name, &mut found, 11_040, 0, &mut status)
        .ok()?;
    check_eq!((found, status), (0, 2));
    // A version that is newer than the driver is refused.
    cuda.proc_address(name, &mut found, 12_080, 0, &mut status)
        .is(1)
}

fn what_is_lacking() -> Outcome {
    let cuda = Cuda::load()?;
    cuda.array_create(&mut 0, 0).is(3)?;
    cuda.init(0).ok()?;
    let path = format!("/errors-{}", std::process::id());
    let file = File::options().append(true).create_new(true).open(&path)?;
    redirect_errors(&file)?;
    cuda.array_create(&mut 0, 0).is(801)?;
    cuda.array_create(&mut 0, 0).is(801)?;
    let said = std::fs::read_to_string(&path)?;
    std::fs::remove_file(path)?;
    check_eq!(said, "fakecuda: cuArrayCreate_v2 is not supported\n");
    // That nobody can read it is no error.
    redirect_errors(&File::options().write(true).open("/dev/full")?)?;
    cuda.array_destroy(0).is(801)
}

fn there_is_no_device() -> Outcome {
    ensure!(!Path::new("/dev/zernel-sim").exists());
    let cuda = Cuda::load()?;
    cuda.init(0).is(100)?;
    cuda.device_count(&mut 0).is(3)?;
    cuda.context_create(&mut 0, 0, 0).is(3)?;
    check_eq!(cuda.name_of(100)?, "CUDA_ERROR_NO_DEVICE");
    Ok(())
}
