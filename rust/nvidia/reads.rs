// SPDX-License-Identifier: GPL-2.0
//! The file `registers` of debugfs: what reads of registers and looks at TSGs cost, and the words that
//! they give.

use crate::{
    glue::{
        debugfs::{
            Show,
            Text, //
        },
        nvidia::load::{
            Samples,
            MOST,
            MOST_LOOKS, //
        },
        time::now_ns,
    },
    meters::{
        Arrival,
        Meters,
        Part, //
    },
    occupancy::registers,
    operations::{
        Driver,
        Hook,
        Nvidia, //
    },
    units::Ns,
};
use kernel::{
    fmt::Write as _,
    new_mutex,
    prelude::*,
    sync::Arc, //
};

/// Times that the reads of a GPU are repeated: the shortest counts, as an interrupt is none of them.
const ROUNDS: usize = 16;

/// TSGs of a GPU that are shown.
pub(crate) const TSGS: usize = 64;

/// A line per GPU, with the time of a call that reads one register, of one that reads [`MOST`], of each
/// read, and of a look at some TSGs; then one per TSG, with a word of each channel.
pub(crate) struct Registers<D: Driver = Hook>(Arc<Nvidia<D>>);

impl<D: Driver> Registers<D> {
    /// Those of a provider.
    pub(crate) fn new(nvidia: Arc<Nvidia<D>>) -> Self {
        Self(nvidia)
    }

    /// The shortest time of a call that reads the engine of a run list so many times.
    fn time(&self, gpu: u32, runlists: &[u32]) -> Result<Ns> {
        let mut least = u64::MAX;
        for _ in 0..ROUNDS {
            let begin = now_ns();
            self.0.driver().engines(gpu, runlists)?;
            least = least.min(now_ns().saturating_sub(begin));
        }
        Ok(Ns(least))
    }

    /// The shortest time of a look at some TSGs at once; `None`: it tells nothing, or there are none.
    /// The looks are nobody's: zernel's own meters do not hear of them.
    fn time_looks(&self, gpu: u32, tsgs: &[u64]) -> Result<Option<u64>> {
        let (runlists, count) = self.0.meters().lock().runlists(gpu);
        let runlist = runlists.get(..count).and_then(|all| all.first().copied());
        let mut meters = Meters::new();
        meters.add_gpu(gpu)?;
        for &tsg in tsgs {
            meters.add(Arrival::new(tsg, Part { gpu, mig: None }, runlist, true)?);
        }
        let meters = KBox::pin_init(new_mutex!(meters, "zernel_nvidia_timed"), GFP_KERNEL)?;
        let mut least = None;
        for _ in 0..ROUNDS {
            let mut count = 0;
            let told = &mut |_, load: Result<_>| count += usize::from(load.is_ok());
            let begin = now_ns();
            let answer = self.0.look(&meters, gpu, tsgs, told);
            let took = now_ns().saturating_sub(begin);
            if answer.is_err() || count < tsgs.len() || count == 0 {
                return Ok(None);
            }
            least = Some(least.map_or(took, |least: u64| least.min(took)));
        }
        Ok(least)
    }

    fn show_gpu(&self, gpu: u32, tsgs: &[u64], out: &mut Text) -> Result {
        let (runlists, count) = self.0.meters().lock().runlists(gpu);
        let Some(&first) = runlists.get(..count).and_then(<[u32]>::first) else {
            out.write_fmt(fmt!("gpu={gpu:#x} unread={}\n", -ENXIO.to_errno()))?;
            return Ok(());
        };
        let all = [first; MOST];
        let times = self
            .time(gpu, &[first])
            .and_then(|one| Ok((one, self.time(gpu, &all)?)));
        let values = self.0.driver().engines(gpu, &all);
        let ((one, many), values) = match (times, values) {
            (Ok(times), Ok(values)) => (times, values),
            (Err(e), _) | (_, Err(e)) => {
                out.write_fmt(fmt!("gpu={gpu:#x} unread={}\n", -e.to_errno()))?;
                return Ok(());
            }
        };
        let told = values.iter().filter(|&&v| registers::is_busy(v).is_some());
        let each = many.saturating_sub(one).0 / (MOST as u64 - 1);
        out.write_fmt(fmt!(
            "gpu={gpu:#x} reads={MOST} told={} one_ns={} many_ns={} read_ns={each}",
            told.count(),
            one.0,
            many.0
        ))?;
        let tsgs = tsgs.get(..tsgs.len().min(MOST_LOOKS)).unwrap_or(tsgs);
        if let Some(took) = self.time_looks(gpu, tsgs)? {
            out.write_fmt(fmt!(" looks={} looks_ns={took}", tsgs.len()))?;
        }
        out.write_fmt(fmt!("\n"))?;
        Ok(())
    }

    /// The first channels of a TSG; nothing of one that is gone.
    fn show_tsg(&self, gpu: u32, tsg: u64, out: &mut Text) -> Result {
        let mut samples = Samples::new();
        samples.push(tsg, 0);
        let read = self.0.driver().take(gpu, &mut samples);
        let mut there = samples.list().iter().filter(|sample| !sample.is_gone());
        let (Ok(_), Some(sample)) = (read, there.next()) else {
            return Ok(());
        };
        let kind = match sample.is_pccsr() {
            true => "pccsr",
            false => "chram",
        };
        let words = sample.words();
        let (_, unknown) = registers::of_channels(words, sample.is_pccsr());
        out.write_fmt(fmt!(
            "tsg={tsg} gpu={gpu:#x} kind={kind} channels={} reads={} told={} asleep={} engine={:#x}",
            sample.channels(),
            words.len(),
            words.len().saturating_sub(unknown as usize),
            u8::from(sample.is_asleep()),
            sample.engine()
        ))?;
        if let Some(took) = self.time_looks(gpu, &[tsg])? {
            out.write_fmt(fmt!(" look_ns={took}"))?;
        }
        for (at, word) in words.iter().enumerate() {
            let lead = if at == 0 { " words=" } else { "," };
            out.write_fmt(fmt!("{lead}{word:#x}"))?;
        }
        out.write_fmt(fmt!("\n"))?;
        Ok(())
    }
}

impl<D: Driver> Show for Registers<D> {
    fn show(&self, out: &mut Text) -> Result {
        let mut gpus = KVec::new();
        for gpu in self.0.gpus().lock().ids() {
            gpus.push(gpu, GFP_KERNEL)?;
        }
        for &gpu in &gpus {
            let (tsgs, count) = self.0.meters().lock().some_tsgs::<TSGS>(gpu);
            let tsgs = tsgs.get(..count).unwrap_or(&tsgs);
            self.show_gpu(gpu, tsgs, out)?;
            for &tsg in tsgs {
                self.show_tsg(gpu, tsg, out)?;
            }
        }
        Ok(())
    }
}
