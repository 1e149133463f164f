// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory: copies, results of kernels, addresses of the wrong kind.

use anyhow::{ensure, Result};
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};

use super::lab::{finishes, Program, LEGACY, LOADED, NON_BLOCKING};
use crate::sys::{self, Cuda, Words};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakecuda.memory",
    &[
        case("copies_arrive_in_order", copies_arrive),
        case("kernels_compute", kernels_compute),
        case("rows_are_copied_and_set", rows),
        case("addresses_of_the_wrong_kind_are_refused", wrong_addresses),
        case("a_device_has_an_end", a_device_has_an_end),
        case("a_module_may_not_fit", a_module_may_not_fit),
        case("memory_that_was_freed_is_left_alone", freed_is_left_alone),
        case("memory_must_be_writable", memory_must_be_writable),
        case("registered_memory_has_an_alias", registered_memory),
        case("sources_are_read_when_cuda_reads_them", sources),
        case("memory_is_freed_in_order", freed_in_order),
        case("addresses_tell_their_kind", kinds),
    ],
    LOADED,
);

fn copies_arrive() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (one, two) = (program.alloc(1 << 20)?, program.alloc(1 << 20)?);
    let values: Vec<u32> = (0..1 << 18).collect();
    program.put(one, &values)?;
    let (stream, other) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    cuda.copy_within_async(two, one, 1 << 20, stream).ok()?;
    cuda.set_32_async(two + 4, 7, 1, stream).ok()?;
    cuda.set_32_async(one, 9, 4, other).ok()?;
    cuda.synchronize().ok()?;
    check_eq!(program.values(two, 4)?, [0, 7, 2, 3]);
    check_eq!(program.values(two + 4 * 99_999, 1)?, [99_999]);
    check_eq!(program.values(one, 5)?, [9, 9, 9, 9, 4]);
    let back = vec![0_u32; 2];
    cuda.copy(back.as_ptr() as u64, two + 4, 8).ok()?;
    check_eq!(back, [7, 2]);
    cuda.copy(one, two, 8).ok()?;
    cuda.set_8(one + 4, 1, 2).ok()?;
    check_eq!(program.values(one, 2)?, [0, 0x0101]);
    cuda.copy_in(one, 0, 0).ok()
}

fn kernels_compute() -> Outcome {
    const N: u32 = 1_000;
    let program = Program::new()?;
    let cuda = &program.cuda;
    let length = 4 * N as usize;
    let (a, b, c) = (
        program.alloc(length)?,
        program.alloc(length)?,
        program.alloc(length)?,
    );
    let floats = |value: fn(u32) -> f32| (0..N).map(|i| value(i).to_bits()).collect::<Vec<_>>();
    program.put(a, &floats(|i| i as f32))?;
    program.put(b, &floats(|i| 2.0 * i as f32))?;
    let stream = program.stream(0)?;
    let (add, saxpy) = (program.kernel("vector_add")?, program.kernel("saxpy")?);
    cuda.launch(add, 8, 128, stream, &[a, b, c, N.into()])
        .ok()?;
    let factor = 0.5_f32.to_bits();
    cuda.launch(saxpy, 8, 128, stream, &[N.into(), factor.into(), a, c])
        .ok()?;
    cuda.stream_synchronize(stream).ok()?;
    check_eq!(program.values(c, N as usize)?, floats(|i| 3.5 * i as f32));
    let mac = program.kernel("zernel_mac")?;
    cuda.launch(mac, 8, 128, stream, &[c, N.into(), 7, 100])
        .ok()?;
    let step = |x: u32, _| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    let expected: Vec<u32> = (0..N).map(|i| (0..100).fold(7 + i, step)).collect();
    check_eq!(program.values(c, N as usize)?, expected);
    let unknown = program.kernel("unknown")?;
    cuda.launch(unknown, 1_000, 256, stream, &[0, 0]).ok()?;
    cuda.synchronize().ok()
}

fn rows() -> Outcome {
    let program = Program::new()?;
    let memory = program.alloc(64)?;
    program.cuda.set_32(memory, 0, 16).ok()?;
    let source: Vec<u32> = (1..=6).collect();
    // Two rows of two words, from rows of three, to rows of four, one word in.
    let mut copy = [0_u64; 16];
    (copy[2], copy[3], copy[6]) = (1, source.as_ptr() as u64, 12);
    (copy[7], copy[9], copy[11], copy[13]) = (4, 2, memory, 16);
    (copy[14], copy[15]) = (8, 2);
    program.cuda.copy_2d(&copy).ok()?;
    check_eq!(program.values(memory, 8)?, [0, 1, 2, 0, 0, 4, 5, 0]);
    copy[13] = 4;
    program.cuda.copy_2d(&copy).is(1)?;
    (copy[9], copy[13]) = (3, 16);
    program.cuda.copy_2d(&copy).is(801)
}

fn wrong_addresses() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (memory, host) = (program.alloc(64)?, Words::new());
    let own = host.address();
    cuda.copy_in(own, own, 4).is(1)?;
    cuda.copy_in(memory, memory, 4).is(1)?;
    cuda.copy_out(memory, memory, 4).is(1)?;
    cuda.copy_in(memory, 64, 4).is(1)?;
    cuda.copy_out(64, memory, 4).is(1)?;
    cuda.copy_in(memory + 61, own, 4).is(1)?;
    cuda.copy_in(memory, own, usize::MAX).is(1)?;
    cuda.copy(memory, memory + (1 << 40), 4).is(1)?;
    cuda.set_32(memory + 2, 0, 1).is(1)?;
    cuda.set_32(own, 0, 1).is(1)?;
    cuda.free(memory + 4).is(1)?;
    cuda.free(own).is(1)?;
    cuda.free_host(memory).is(1)?;
    cuda.free(0).ok()?;
    check_eq!(host.load(0), 0);
    cuda.free(memory).ok()?;
    cuda.copy_in(memory, own, 4).is(1)?;
    cuda.free(memory).is(1)?;
    // Nothing of this is an error of the context.
    cuda.synchronize().ok()
}

fn a_device_has_an_end() -> Outcome {
    let program = Program::with("FAKECUDA_MEMORY", "8192")?;
    let cuda = &program.cuda;
    let (mut free, mut total, mut address) = (0, 0, 0);
    cuda.memory_info(&mut free, &mut total).ok()?;
    // The module's variable takes some.
    check_eq!((free, total), (8_192 - 512, 8_192));
    cuda.alloc(&mut address, 8_192).is(2)?;
    cuda.alloc(&mut address, 0).is(1)?;
    check_eq!(address, 0);
    let memory = program.alloc(4_096)?;
    cuda.memory_info(&mut free, &mut total).ok()?;
    check_eq!(free, 4_096 - 512);
    cuda.alloc(&mut address, 4_096).is(2)?;
    cuda.free(memory).ok()?;
    cuda.alloc(&mut address, 4_096).ok()
}

fn a_module_may_not_fit() -> Outcome {
    std::env::set_var("FAKECUDA_MEMORY", "1024");
    let cuda = Cuda::open()?;
    let (mut context, mut module) = (0, 0);
    cuda.context_create(&mut context, 0, 0).ok()?;
    let text = c".version 6.4
.target sm_70
.global .u32 one[4];
.global .u32 two[256];
";
    let program = Program {
        cuda,
        context,
        module,
    };
    finishes(&program, "the call ends", || {
        program.cuda.module_load(&mut module, text.as_ptr()).is(2)
    })?;
    let (mut free, mut total) = (0, 0);
    program.cuda.memory_info(&mut free, &mut total).ok()?;
    check_eq!((module, free, total), (0, 1_024, 1_024));
    Ok(())
}

fn freed_is_left_alone() -> Outcome {
    let program = Program::new()?;
    let (cuda, page) = (&program.cuda, Words::new());
    let wait = program.register(page.address(), 4_096)?;
    let (stream, other) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    let memory = program.alloc(4_096)?;
    cuda.wait_32(stream, wait, 1, 0).ok()?;
    cuda.set_32_async(memory, 7, 1_024, stream).ok()?;
    cuda.free_async(memory, other).ok()?;
    cuda.stream_synchronize(other).ok()?;
    // New memory, perhaps in its place.
    let new = program.alloc(4_096)?;
    ensure!(new != memory, "no address is used twice");
    page.store(0, 1);
    // An access to memory that is gone is a fault.
    cuda.stream_synchronize(stream).is(700)
}

/// Memory that a program cannot write to: it holds more than zeroes, so that it is in its file.
static FIXED: [u8; 16_384] = [1; 16_384];

fn memory_must_be_writable() -> Outcome {
    let program = Program::new()?;
    let middle = sys::address_of(&FIXED) + 8_192;
    // The GPU itself has other memory.
    let first = Words::new();
    program.register(first.address(), 4_096)?;
    program.cuda.register(middle, 4, 3).is(1)?;
    program.cuda.unregister(middle).is(713)?;
    program.cuda.synchronize().ok()
}

fn registered_memory() -> Outcome {
    let program = Program::new()?;
    let (cuda, words) = (&program.cuda, Words::new());
    let host = words.address();
    cuda.device_pointer(&mut 0, host, 0).is(1)?;
    let address = program.register(host, 4_096)?;
    ensure!(address != host);
    cuda.register(host + 64, 64, 3).is(712)?;
    cuda.register(64, 64, 3).is(1)?;
    cuda.register(host, 64, 16).is(1)?;
    cuda.register(host, 64, 8).is(801)?;
    cuda.set_32(address + 8, 5, 2).ok()?;
    cuda.synchronize().ok()?;
    check_eq!((words.load(2), words.load(3), words.load(4)), (5, 5, 0));
    // The program's own address is none of the GPU's.
    cuda.set_32(host, 5, 1).is(1)?;
    cuda.unregister(host + 4).is(713)?;
    cuda.unregister(host).ok()?;
    cuda.unregister(host).is(713)?;
    cuda.set_32(address, 5, 1).is(1)?;
    // Memory that the program has given back is registered anew.
    let address = program.register(host, 4_096)?;
    cuda.set_32(address, 6, 1).ok()?;
    cuda.synchronize().ok()?;
    check_eq!(words.load(0), 6);
    let pinned = program.alloc_host(64)?;
    let mut same = 0;
    cuda.device_pointer(&mut same, pinned + 4, 0).ok()?;
    check_eq!(same, pinned + 4);
    cuda.free_host(pinned).ok()?;
    cuda.free_host(pinned).is(1)
}

fn sources() -> Outcome {
    let program = Program::new()?;
    let (cuda, page) = (&program.cuda, Words::new());
    let wait = program.register(page.address(), 4_096)?;
    let (stream, memory) = (program.stream(NON_BLOCKING)?, program.alloc(8)?);
    let (own, pinned) = (Words::new(), program.alloc_host(4)?);
    own.store(0, 1);
    sys::store(pinned, 1);
    cuda.wait_32(stream, wait, 1, 0).ok()?;
    cuda.copy_in_async(memory, own.address(), 4, stream).ok()?;
    cuda.copy_in_async(memory + 4, pinned, 4, stream).ok()?;
    own.store(0, 2);
    sys::store(pinned, 2);
    page.store(0, 1);
    cuda.stream_synchronize(stream).ok()?;
    check_eq!(program.values(memory, 2)?, [1, 2]);
    Ok(())
}

fn freed_in_order() -> Outcome {
    let program = Program::new()?;
    let (cuda, page) = (&program.cuda, Words::new());
    let wait = program.register(page.address(), 4_096)?;
    let stream = program.stream(NON_BLOCKING)?;
    let mut memory = 0;
    cuda.wait_32(stream, wait, 1, 0).ok()?;
    cuda.alloc_async(&mut memory, 64, stream).ok()?;
    cuda.set_32_async(memory, 3, 16, stream).ok()?;
    cuda.free_async(memory, stream).ok()?;
    cuda.free_async(page.address(), stream).is(1)?;
    let (mut base, mut length) = (0, 0);
    cuda.address_range(&mut base, &mut length, memory + 63)
        .ok()?;
    check_eq!((base, length), (memory, 64));
    page.store(0, 1);
    cuda.stream_synchronize(stream).ok()?;
    cuda.address_range(&mut base, &mut length, memory).is(500)
}

fn kinds() -> Outcome {
    let program = Program::new()?;
    let (cuda, own) = (&program.cuda, Words::new());
    let (memory, pinned) = (program.alloc(64)?, program.alloc_host(64)?);
    let alias = program.register(own.address(), 4_096)?;
    let get = |attribute, address| -> Result<u64> {
        let mut value = 0;
        cuda.pointer_attribute(&mut value, attribute, address)
            .ok()?;
        Ok(value)
    };
    check_eq!(
        (get(2, memory)?, get(2, pinned)?, get(2, alias)?),
        (2, 1, 1)
    );
    check_eq!(get(2, own.address() + 8)?, 1);
    check_eq!(get(3, own.address() + 8)?, alias + 8);
    check_eq!(get(4, alias + 8)?, own.address() + 8);
    check_eq!(
        (get(1, memory)?, get(12, memory + 5)?),
        (program.context, 64)
    );
    ensure!(get(7, memory)? != get(7, pinned)?);
    cuda.pointer_attribute(&mut 0, 2, 64).is(1)?;
    cuda.pointer_attribute(&mut 0, 4, memory).is(1)?;
    cuda.copy_out(own.address(), LEGACY, 4).is(1)
}
