// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts: TSGs of zernel, current ones, primary ones, modules in them, processes that fork.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use testkit::check_eq;
use testkit::child::{Child, End};
use testkit::harness::{case, Outcome, Suite};

use super::lab::{tsgs, Program, KERNELS, LEGACY, LOADED, PER_THREAD};
use crate::sys::{at_exit, end, Cuda};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakecuda.context",
    &[
        case("a_context_is_a_tsg", a_context_is_a_tsg),
        case("each_device_has_its_own", each_device_has_its_own),
        case("contexts_are_stacked_by_thread", contexts_are_stacked),
        case("a_destroyed_one_says_so", a_destroyed_one_says_so),
        case("primary_contexts_are_counted", primary_contexts_are_counted),
        case("flags_and_limits_are_kept", flags_and_limits),
        case("modules_are_texts", modules_are_texts),
        case("a_child_has_no_driver", a_child_has_no_driver),
        case("the_last_calls_of_a_process_work", the_last_calls),
    ],
    LOADED,
);

fn a_context_is_a_tsg() -> Outcome {
    check_eq!(tsgs()?.len(), 0);
    let program = Program::new()?;
    check_eq!(tsgs()?.len(), 1);
    program.work(LEGACY, Duration::from_millis(1))?;
    program.cuda.context_destroy(program.context).ok()?;
    check_eq!(tsgs()?.len(), 0);
    Ok(())
}

fn each_device_has_its_own() -> Outcome {
    let program = Program::new()?;
    let (mut second, mut device) = (0, -1);
    program
        .cuda
        .context_create_4(&mut second, None, 0, 1)
        .ok()?;
    program.cuda.context_device(&mut device).ok()?;
    check_eq!(device, 1);
    let found = tsgs()?;
    check_eq!(found.len(), 2);
    ensure!(found[0].gpu != found[1].gpu);
    // A kernel of a context is not launched into another one.
    let spin = program.kernel("zernel_spin")?;
    program.cuda.launch(spin, 1, 1, LEGACY, &[1]).is(400)?;
    program.cuda.context_create(&mut 0, 0, 2).is(101)?;
    program.cuda.context_create(&mut 0, 0x100, 0).is(1)?;
    program.cuda.context_create(&mut 0, 3, 0).is(1)?;
    let affinity = [1, 1, 0];
    program
        .cuda
        .context_create_4(&mut 0, Some(&affinity), 0, 0)
        .is(801)?;
    check_eq!(tsgs()?.len(), 2);
    Ok(())
}

fn current(cuda: &Cuda) -> Result<u64> {
    let mut context = 1;
    cuda.context_get(&mut context).ok()?;
    Ok(context)
}

fn contexts_are_stacked() -> Outcome {
    let program = Program::new()?;
    let (cuda, first) = (&program.cuda, program.context);
    let mut second = 0;
    cuda.context_create(&mut second, 0, 0).ok()?;
    check_eq!(current(cuda)?, second);
    let mut popped = 0;
    cuda.context_pop(&mut popped).ok()?;
    check_eq!((popped, current(cuda)?), (second, first));
    cuda.context_push(second).ok()?;
    cuda.context_set(first).ok()?;
    check_eq!(current(cuda)?, first);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| -> Result<()> {
            check_eq!(current(cuda)?, 0);
            cuda.synchronize().is(201)?;
            cuda.context_set(second).ok()?;
            cuda.synchronize().ok()
        });
        other.join().map_err(|_| anyhow::anyhow!("panicked"))?
    })?;
    cuda.context_set(0).ok()?;
    check_eq!(current(cuda)?, first, "the one below");
    cuda.context_set(0).ok()?;
    check_eq!(current(cuda)?, 0);
    cuda.context_pop(&mut popped).is(201)?;
    cuda.context_push(12_345).is(201)
}

fn a_destroyed_one_says_so() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let stream = program.stream(0)?;
    let mut event = 0;
    cuda.event_create(&mut event, 0).ok()?;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| -> Result<()> {
            cuda.context_push(program.context).ok()?;
            cuda.context_destroy(program.context).ok()?;
            check_eq!(current(cuda)?, 0);
            Ok(())
        });
        other.join().map_err(|_| anyhow::anyhow!("panicked"))?
    })?;
    // It is still current here.
    cuda.synchronize().is(709)?;
    cuda.alloc(&mut 0, 16).is(709)?;
    cuda.stream_query(stream).is(400)?;
    cuda.event_query(event).is(400)?;
    cuda.context_destroy(program.context).is(201)
}

fn primary_contexts_are_counted() -> Outcome {
    let cuda = Cuda::open()?;
    let (mut flags, mut active) = (1, 1);
    cuda.primary_state(0, &mut flags, &mut active).ok()?;
    check_eq!((flags, active), (0, 0));
    cuda.primary_flags(0, 4).ok()?;
    let (mut one, mut two) = (0, 0);
    cuda.primary_retain(&mut one, 0).ok()?;
    cuda.primary_retain(&mut two, 0).ok()?;
    check_eq!(one, two);
    check_eq!(current(&cuda)?, 0, "retained, not current");
    cuda.primary_state(0, &mut flags, &mut active).ok()?;
    check_eq!((flags, active), (4, 1));
    cuda.context_destroy(one).is(201)?;
    cuda.primary_release(0).ok()?;
    check_eq!(tsgs()?.len(), 1);
    cuda.primary_release(0).ok()?;
    check_eq!(tsgs()?.len(), 0);
    cuda.primary_release(0).is(201)?;
    cuda.primary_retain(&mut one, 0).ok()?;
    cuda.primary_retain(&mut two, 0).ok()?;
    // A reset ends the context and gives no reference back.
    cuda.primary_reset(0).ok()?;
    check_eq!(tsgs()?.len(), 0);
    cuda.primary_state(0, &mut flags, &mut active).ok()?;
    check_eq!(active, 0);
    cuda.primary_retain(&mut one, 0).ok()?;
    for left in [1, 1, 0] {
        cuda.primary_release(0).ok()?;
        check_eq!(tsgs()?.len(), left);
    }
    cuda.primary_release(0).is(201)?;
    cuda.primary_reset(0).ok()
}

fn flags_and_limits() -> Outcome {
    let cuda = Cuda::open()?;
    let (mut context, mut flags, mut limit) = (0, 0, 0);
    cuda.context_create(&mut context, 4, 0).ok()?;
    cuda.context_flags(&mut flags).ok()?;
    check_eq!(flags, 4);
    cuda.context_set_limit(2, 1 << 20).ok()?;
    cuda.context_limit(&mut limit, 2).ok()?;
    check_eq!(limit, 1 << 20);
    cuda.context_limit(&mut limit, 99).is(215)?;
    let (mut least, mut greatest) = (1, 1);
    cuda.priorities(&mut least, &mut greatest).ok()?;
    ensure!(least == 0 && greatest < 0);
    Ok(())
}

fn modules_are_texts() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let mut module = 0;
    cuda.module_load(&mut module, c"\x7fELF".as_ptr()).is(209)?;
    cuda.module_load(&mut module, c"hello".as_ptr()).is(200)?;
    cuda.module_load(&mut module, c".version 6.4\n.entry x".as_ptr())
        .is(218)?;
    cuda.module_load(&mut module, std::ptr::null()).is(1)?;
    check_eq!(module, 0);
    let (mut function, mut again) = (0, 0);
    cuda.module_function(&mut function, program.module, c"unknown".as_ptr())
        .ok()?;
    cuda.module_function(&mut again, program.module, c"unknown".as_ptr())
        .ok()?;
    check_eq!(function, again);
    cuda.module_function(&mut again, program.module, c"absent".as_ptr())
        .is(500)?;
    cuda.module_function(&mut again, 16, c"unknown".as_ptr())
        .is(400)?;
    let (mut address, mut bytes) = (0, 0);
    let table = c"table".as_ptr();
    cuda.module_global(&mut address, &mut bytes, program.module, table)
        .ok()?;
    check_eq!(bytes, 64);
    program.put(address + 60, &[7])?;
    check_eq!(program.values(address + 60, 1)?, [7]);
    let (mut blocks, mut value) = (0, 0);
    cuda.occupancy(&mut blocks, function, 1_024, 0).ok()?;
    check_eq!(blocks, 2);
    cuda.function_attribute(&mut value, 0, function).ok()?;
    check_eq!(value, 1_024);
    cuda.module_unload(program.module).ok()?;
    cuda.launch(function, 1, 1, LEGACY, &[0, 0]).is(400)?;
    cuda.module_unload(program.module).is(400)?;
    cuda.module_load(&mut module, KERNELS.as_ptr()).ok()
}

fn a_child_has_no_driver() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let child = Child::spawn(|| {
        cuda.context_get(&mut 0).is(3)?;
        cuda.array_create(&mut 0, 0).is(3)?;
        cuda.stream_query(LEGACY).is(3)?;
        cuda.device_count(&mut 0).is(3)?;
        cuda.init(0).is(3)?;
        cuda.context_destroy(program.context).is(3)
    })?;
    child.join()?;
    program.work(LEGACY, Duration::from_millis(1))?;
    cuda.synchronize().ok()
}

/// The program of the function below.
static LAST: OnceLock<Program> = OnceLock::new();

/// The last calls of a process, as destructors of C++ make them.
extern "C" fn last_calls() {
    let calls = || -> Result<()> {
        let program = LAST.get().context("no program")?;
        let memory = program.alloc(64)?;
        program.put(memory, &[7])?;
        check_eq!(program.values(memory, 1)?, [7]);
        program.cuda.free(memory).ok()?;
        program.work(PER_THREAD, Duration::from_micros(10))?;
        program.cuda.synchronize().ok()?;
        check_eq!(current(&program.cuda)?, program.context);
        program.cuda.context_destroy(program.context).ok()
    };
    if let Err(error) = calls() {
        eprintln!("{error:#}");
        end(7);
    }
    end(5);
}

fn the_last_calls() -> Outcome {
    let child = Child::spawn(|| {
        at_exit(last_calls)?;
        let program = Program::new()?;
        program.work(PER_THREAD, Duration::from_micros(10))?;
        LAST.get_or_init(|| program);
        std::process::exit(0);
    })?;
    check_eq!(child.end()?, End::Exit(5));
    Ok(())
}
