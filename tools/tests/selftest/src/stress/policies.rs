// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every policy is switched while clients of all kinds have requests in flight: no request, trigger, slice
//! or TSG is left behind.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Begin, Features, Number, Of, Slot, Slots, Word};
use libzernel::sim::{Condition, Context, Item};
use libzernel::{tsg, Level, Target, Zernel};
use rustix::io::Errno;
use testkit::random::Random;

use crate::common::{errno, level, slice_of, tune, wait_until, wait_until_within, Lab, SOON};
use crate::harness::Outcome;

/// The policies, with their values; the first one is the default.
const POLICIES: [(&str, &[&str]); 17] = [
    ("order", &["fifo", "edf"]),
    ("slice_policy", &["table", "exponential", "pid"]),
    (
        "predictor",
        &["quantile", "fixed", "ema", "holt", "features"],
    ),
    ("predictor_margin", &["0", "1"]),
    ("preempt_enabled", &["1", "0"]),
    ("preempt_scheduled", &["1", "0"]),
    ("min_prep_us", &["0", "1000000"]),
    ("no_holder", &["kick", "exclude"]),
    ("rotation", &["fair", "none", "rr", "credit"]),
    ("rotation_quantum_us", &["8000", "500"]),
    ("level0_target_us", &["0", "1000"]),
    ("level3_preemptible", &["1", "0"]),
    ("level0_budget_us", &["95000", "5000"]),
    ("level7_timeslice_us", &["200", "5000"]),
    ("lease_us", &["10000", "1000"]),
    ("slice_period_us", &["100000", "10000"]),
    ("enabled", &["1", "0"]),
];

/// The levels of the clients, which have requests, and of the others, which always have work.
const CLIENTS: [u8; 4] = [0, 0, 3, 7];
const OTHERS: [u8; 4] = [7, 7, 5, 6];

/// Slots of a client.
const SLOTS: u32 = 4;

/// The time of a request's kernels.
const WORK: Duration = Duration::from_micros(300);

/// A client with requests.
struct Client {
    slots: Slots,
    context: Context,
    tsg: tsg::Id,
    level: Level,
}

impl Client {
    fn new(lab: &Lab, number: u8) -> Result<Self> {
        let (context, tsg) = lab.compute()?;
        let slots = Slots::map(&Zernel::open()?, 0..SLOTS)?;
        context.add_memory(slots.memory())?;
        lab.zernel.set_class(&Target::Tsg(tsg.id), level(number))?;
        Ok(Self {
            slots,
            context,
            tsg: tsg.id,
            level: level(number),
        })
    }

    fn slot(&self, number: u32) -> Result<Slot<'_>> {
        self.slots.slot(number).context("it was mapped")
    }

    fn begin(&self, random: &mut Random) -> Begin {
        let begin = Begin::new(self.tsg).key(random.below(3));
        let begin = begin.slo(Duration::from_micros(1 + random.below(20_000)));
        let begin = begin.expected(Duration::from_micros(random.below(2_000)));
        let begin = match Features::new(&[random.below(1_000) as i64]) {
            Some(features) if random.one_in(2) => begin.features(features),
            _ => begin,
        };
        match random.one_in(3) {
            true => begin.without_holder(),
            false => begin,
        }
    }

    /// Queues the stream of a request, which may be left waiting: a later number ends that wait, too.
    fn submit(&self, slot: &Slot<'_>, request: Number, holder: bool) -> Result<()> {
        let number = request.get();
        let (trigger, release) = (slot.word(Word::Trigger), slot.word(Word::Release));
        let items = [
            Item::wait(trigger, Condition::AtLeast, number),
            Item::release(slot.word(Word::Held), number),
            Item::hold(release, Condition::AtLeast, number, Duration::from_secs(60)),
            Item::work(WORK),
        ];
        let items = if holder { &items[..] } else { &items[3..] };
        match errno(self.context.submit(0, items)) {
            // The channel is full while nothing is served.
            None | Some(Errno::AGAIN) => Ok(()),
            Some(error) => Err(error).context("submit"),
        }
    }

    /// Requests with all kinds of ends, some of which are left to their lease.
    fn work(&self, seed: u64, stop: &AtomicBool) -> Result<u32> {
        let mut random = Random::new(seed);
        let mut rounds = 0;
        while !stop.load(Relaxed) {
            let slot = self.slot(random.below(SLOTS.into()) as u32)?;
            let request = slot.begin(&self.begin(&mut random))?.number;
            self.submit(&slot, request, true)?;
            std::thread::sleep(Duration::from_micros(random.below(1_500)));
            let result = match random.below(6) {
                0 => slot.cancel(request),
                1 | 2 => slot
                    .ready_call(request)
                    .and_then(|()| slot.done_call(request)),
                3 | 4 => {
                    slot.ready(request);
                    slot.done(request);
                    Ok(())
                }
                _ => Ok(()),
            };
            let result = errno(result);
            ensure!(matches!(result, None | Some(Errno::STALE)), "{result:?}");
            rounds += 1;
        }
        Ok(rounds)
    }

    /// Whatever was left to its lease is over, and no word is missing.
    fn is_free(&self) -> Result<bool> {
        for number in 0..SLOTS {
            let slot = self.slot(number)?;
            if slot.load(Word::Trigger) != slot.load(Word::Release) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A request is served as if nothing had been.
fn serves(client: &Client) -> Outcome {
    let done = client.context.stats()?.completed;
    let slot = client.slot(0)?;
    let request = slot.begin(&Begin::new(client.tsg).key(9))?.number;
    client.submit(&slot, request, true)?;
    slot.ready_call(request)?;
    wait_until("a request is served", || {
        let stats = client.context.stats()?;
        Ok(stats.completed > done && stats.queued == 0)
    })?;
    Ok(slot
        .done_call(request)
        .or_else(|error| match error.errno() {
            // A machine may be slower than its lease.
            Some(Errno::STALE) => Ok(()),
            _ => Err(error),
        })?)
}

/// The lines of the state that begin with this.
fn lines(of: &str) -> Result<Vec<String>> {
    let state = fs::read_to_string("/sys/kernel/debug/zernel/state")?;
    let lines = state.lines().filter(|line| line.starts_with(of));
    Ok(lines.map(str::to_owned).collect())
}

pub(super) fn switched_under_load() -> Outcome {
    let rounds = if testkit::is_short() { 200 } else { 600 };
    let lab = Lab::open()?;
    let clients: Vec<_> = CLIENTS
        .iter()
        .map(|&number| Client::new(&lab, number))
        .collect::<Result<_>>()?;
    let others: Vec<_> = OTHERS
        .iter()
        .map(|&number| {
            let (context, tsg) = lab.compute()?;
            lab.zernel.set_class(&Target::Tsg(tsg.id), level(number))?;
            context.submit(0, &[Item::work(Duration::from_secs(60)); 60])?;
            Ok((context, level(number)))
        })
        .collect::<Result<_>>()?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| -> Outcome {
        let workers: Vec<_> = (1..)
            .zip(&clients)
            .map(|(seed, client)| {
                let stop = &stop;
                scope.spawn(move || client.work(seed, stop))
            })
            .collect();
        let switched = switch(rounds);
        stop.store(true, Relaxed);
        for worker in workers {
            let rounds = worker.join().expect("a worker panicked")?;
            ensure!(rounds > 10, "{rounds} requests");
        }
        switched
    })?;
    // Without bounds nobody is throttled, so that slices stay.
    for number in 0..7 {
        tune(&format!("level{number}_budget_us"), 100_000)?;
    }
    nothing_is_stranded(&lab, &clients, &others)?;
    // Nothing of it is left with them.
    drop((clients, others));
    wait_until("nothing is listed", || Ok(lines("tsg ")?.is_empty()))?;
    for gpu in lines("gpu ")? {
        ensure!(gpu.contains(" tsgs 0 pending 0 suspended 0 "), "{gpu}");
    }
    Ok(())
}

/// Switches one policy after the other, and all of them back.
fn switch(rounds: u32) -> Outcome {
    let mut random = Random::new(7);
    for _ in 0..rounds {
        let (name, values) = POLICIES[random.below(POLICIES.len() as u64) as usize];
        tune(name, values[random.below(values.len() as u64) as usize])?;
        std::thread::sleep(Duration::from_micros(random.below(4_000)));
    }
    for (name, values) in POLICIES {
        tune(name, values[0])?;
    }
    Ok(())
}

fn nothing_is_stranded(lab: &Lab, clients: &[Client], others: &[(Context, Level)]) -> Outcome {
    wait_until("no request is in flight", || {
        Ok(lab.zernel.request_stats(Of::All)?.in_flight == 0)
    })?;
    for client in clients {
        wait_until("no word is missing", || client.is_free())?;
        // Streams that waited for a lease go on.
        wait_until_within(2 * SOON, "all streams have gone on", || {
            Ok(client.context.stats()?.queued == 0)
        })?;
    }
    lab.wait_set()?;
    for (context, level) in clients
        .iter()
        .map(|client| (&client.context, client.level))
        .chain(others.iter().map(|(context, level)| (context, *level)))
    {
        let number = level.number();
        lab.wait_slice(context, slice_of(number))
            .with_context(|| format!("level {number}"))?;
        if level != Level::BE {
            wait_until("it is scheduled", || Ok(context.stats()?.enabled))?;
        }
    }
    for line in lines("tsg ")? {
        ensure!(line.ends_with(" managed 1 queued 0 failed 0"), "{line}");
    }
    // Best-effort takes turns as before: each of them runs.
    let best = others.iter().filter(|(_, level)| *level == Level::BE);
    for (context, _) in best {
        let before = context.stats()?.busy_ns;
        wait_until_within(2 * SOON, "best-effort runs", || {
            Ok(context.stats()?.busy_ns > before)
        })?;
    }
    clients.iter().try_for_each(serves)
}
