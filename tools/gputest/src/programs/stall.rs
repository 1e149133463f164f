// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that wait for a holder of the same context, as it is work of the context.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use cuda::Stream;

use crate::gpu::{look, us, Gpu, ONE, WARP};
use crate::report::Findings;
use crate::slot::{HELD, RELEASE};
use crate::sys;
use crate::sys::memory::{Page, Words};

const MARK: usize = 16;
/// A call that has not returned by then waits for the holder.
const PATIENCE: Duration = Duration::from_millis(200);
const BOUND: Duration = Duration::from_secs(2);

/// A call that is made while a holder runs.
type Call<'a> = Box<dyn FnOnce() -> Result<()> + Send + 'a>;

/// The time of a call in microseconds, and if it returned before the holder was released.
fn measure(gpu: &Gpu, words: &Words, number: u32, call: Call<'_>) -> Result<(f64, bool)> {
    let entered = gpu.enter()?;
    let lane = gpu.driver.create_stream(gpu.context())?;
    let holder = gpu.holder()?;
    let (held, release) = (words.address(HELD), words.address(RELEASE));
    let bound = BOUND.as_nanos() as u64;
    sys::launch(
        &holder,
        WARP,
        lane.stream(),
        [held, release, number.into(), bound],
    )?;
    look("the holder", || words.load(HELD) == number)?;
    let (told, ended) = mpsc::channel();
    let measured = thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let _entered = gpu.enter()?;
            let begin = Instant::now();
            let done = call();
            let time = us(begin, Instant::now());
            // The other side waits for it, or has seen that it stalls.
            let _ = told.send(());
            done.map(|()| time)
        });
        let is_quick = ended.recv_timeout(PATIENCE).is_ok();
        words.store(RELEASE, number);
        let time = thread.join().ok().context("a call has panicked")??;
        anyhow::Ok((time, is_quick))
    });
    words.store(RELEASE, number);
    entered.wait_idle(lane.stream())?;
    measured
}

pub fn run(gpu: &Gpu) -> Result<Findings> {
    let mut findings = Findings::default();
    let words = gpu.words()?;
    let (mark, late) = (gpu.mark()?, gpu.spin()?);
    let entered = gpu.enter()?;
    let api = &gpu.api;
    let stream = api.stream()?;
    let own = stream.stream();
    let memory = api.allocate(1 << 20)?;
    let (kept, freed) = (api.allocate(1 << 20)?, api.allocate(1 << 20)?);
    let unloaded = api.load(Gpu::text())?;
    let (page, _) = Page::twice()?;
    let other = Words::of(Page::twice()?.0, &gpu.driver, gpu.context())?;
    let bytes = vec![1; 1 << 20];
    let idle = api.stream()?;
    let lazy = api.lazy_kernel(Gpu::text(), c"zernel_spin")?;
    let launch = |stream: Stream| {
        sys::launch(&mark, ONE, stream, [words.address(MARK), 1])?;
        Ok(gpu.enter()?.wait_idle(stream)?)
    };
    // Each call, and if it is known to wait for all work of its context.
    let calls: Vec<(&str, bool, Call<'_>)> = vec![
        (
            "cuMemAlloc",
            false,
            Box::new(|| {
                let address = api.allocate(1 << 20)?;
                // Freed when the holder is gone.
                let _ = address;
                Ok(())
            }),
        ),
        ("cuMemFree", true, Box::new(|| api.free(freed))),
        (
            "cuMemHostAlloc and cuMemFreeHost",
            true,
            Box::new(|| api.pin_and_free()),
        ),
        (
            "cuMemHostRegister",
            false,
            Box::new(|| {
                let registered = Words::of(page, &gpu.driver, gpu.context())?;
                std::mem::forget(registered);
                Ok(())
            }),
        ),
        (
            "cuMemHostUnregister",
            true,
            Box::new(move || {
                drop(other);
                Ok(())
            }),
        ),
        (
            "cuModuleLoadData",
            true,
            Box::new(|| api.load(Gpu::lost_text()).map(|_| ())),
        ),
        ("cuModuleUnload", true, Box::new(|| api.unload(unloaded))),
        (
            "cuCtxSynchronize",
            true,
            Box::new(|| Ok(gpu.enter()?.synchronize()?)),
        ),
        (
            "cuStreamCreate and cuStreamDestroy",
            false,
            Box::new(|| api.stream_and_end()),
        ),
        ("cuStreamSynchronize of an idle stream", false, {
            Box::new(|| Ok(gpu.enter()?.wait_idle(idle.stream())?))
        }),
        (
            "cuEventCreate and cuEventDestroy",
            false,
            Box::new(|| {
                drop(gpu.driver.create_event(gpu.context())?);
                Ok(())
            }),
        ),
        (
            "cuMemGetInfo",
            false,
            Box::new(|| gpu.enter()?.memory().map(|_| ()).map_err(Into::into)),
        ),
        (
            "cuMemcpyHtoD, 4 KiB",
            false,
            Box::new(|| api.write(memory, &bytes[..4096])),
        ),
        (
            "cuMemcpyHtoD, 1 MiB",
            false,
            Box::new(|| api.write(memory, &bytes)),
        ),
        (
            "cuMemcpyDtoH, 4 KiB",
            false,
            Box::new(|| api.read::<u8>(kept, 4096).map(|_| ())),
        ),
        (
            "cuMemcpyDtoH, 1 MiB",
            false,
            Box::new(|| api.read::<u8>(kept, 1 << 20).map(|_| ())),
        ),
        ("cuMemsetD32", false, Box::new(|| api.fill(memory, 1, 1024))),
        ("a kernel of a stream", false, Box::new(|| launch(own))),
        (
            "a kernel of the legacy default stream",
            false,
            Box::new(|| launch(Stream::LEGACY)),
        ),
        (
            "a kernel of a thread's default stream",
            false,
            Box::new(|| launch(Stream::PER_THREAD)),
        ),
        (
            "the first launch of a kernel",
            false,
            Box::new(|| {
                sys::launch(&late, ONE, own, [1000])?;
                Ok(gpu.enter()?.wait_idle(own)?)
            }),
        ),
        (
            "the first launch of a kernel of a library",
            true,
            Box::new(|| {
                api.launch_lazy(lazy, own, 1000)?;
                Ok(gpu.enter()?.wait_idle(own)?)
            }),
        ),
        (
            "a graph of one kernel, made and launched",
            false,
            Box::new(|| {
                let graph = api.graph(own, || {
                    Ok(sys::launch(&mark, ONE, own, [words.address(MARK), 2])?)
                })?;
                api.launch(&graph, own)?;
                Ok(gpu.enter()?.wait_idle(own)?)
            }),
        ),
        (
            "cuCtxCreate",
            false,
            Box::new(|| {
                let made = gpu.driver.create_context(gpu.device)?;
                std::mem::forget(made);
                gpu.driver.set_current(Some(gpu.context()))?;
                Ok(())
            }),
        ),
    ];
    for ((name, waits, call), number) in calls.into_iter().zip(1..) {
        let (time, is_quick) = measure(gpu, &words, number, call).context(name)?;
        let how = if is_quick { "returns" } else { "waits" };
        findings.value(name, format!("{how}, {time:.0} us"));
        let expected = if waits {
            "waits for the holder"
        } else {
            "does not wait for it"
        };
        findings.expect(format!("{name} {expected}"), is_quick != waits);
    }
    entered.synchronize()?;
    Ok(findings)
}
