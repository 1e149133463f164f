// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every policy is switched while clients of all kinds have requests in flight: no request, trigger, slice
//! or TSG is left behind.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Begin, Features, Number, Of, Slot, Slots, Word};
use libzernel::sim::{Condition, Context, ContextSpec, Item};
use libzernel::{tsg, Level, Target, Zernel};
use rustix::io::Errno;
use testkit::random::Random;

use crate::check_eq;
use crate::common::{
    default_of, errno, level, slice_of, tune, wait_until, wait_until_within, Lab, SOON,
};
use crate::harness::Outcome;
use crate::tunables::DEFAULTS;

/// The policies, with some of their values; the first one is the default. A new one has a row here.
const POLICIES: &[(&str, &[&str])] = &[
    // Requests.
    ("order", &["fifo", "edf", "edf-preemptive"]),
    (
        "predictor",
        &["quantile", "fixed", "ema", "holt", "features"],
    ),
    ("predictor_margin", &["0", "1"]),
    ("features_measured", &["0", "1"]),
    ("shared_early_cost", &["none", "12"]),
    ("preempt_enabled", &["1", "0"]),
    ("preempt_scheduled", &["1", "0"]),
    ("min_prep_us", &["0", "1000000"]),
    ("no_holder", &["kick", "exclude"]),
    ("lease_us", &["10000", "1000"]),
    // Slices.
    ("slice_policy", &["table", "exponential", "pid", "slack"]),
    ("slice_period_us", &["100000", "10000"]),
    ("slack_credit_us", &["20000", "0"]),
    ("level0_target_us", &["0", "1000"]),
    ("level3_preemptible", &["1", "0"]),
    ("level7_timeslice_us", &["200", "5000"]),
    ("copy_timeslice_us", &["10", "0", "1000"]),
    // Turns and budgets.
    ("rotation", &["fair", "none", "rr", "credit"]),
    ("rotation_quantum_us", &["8000", "500"]),
    ("level0_budget_us", &["95000", "5000"]),
    ("enabled", &["1", "0"]),
];

/// The levels of the clients, which have requests, and of the others, which always have work.
const CLIENTS: [u8; 4] = [0, 0, 3, 7];
const OTHERS: [u8; 4] = [7, 7, 5, 6];

/// Requests of a client at least.
const LEAST: u32 = 20;

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

    /// True if its requests may do without a holder while classes are applied.
    fn is_above(&self) -> bool {
        self.level.number() < Level::UNCLASSED_RANK.number()
    }

    fn begin(&self, random: &mut Random) -> Begin {
        let begin = Begin::new(self.tsg).key(random.below(3));
        let begin = begin.slo(Duration::from_micros(1 + random.below(20_000)));
        let begin = begin.expected(Duration::from_micros(random.below(2_000)));
        match Features::new(&[random.below(1_000) as i64]) {
            Some(features) if random.one_in(2) => begin.features(features),
            _ => begin,
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
        while !stop.load(Relaxed) || rounds < LEAST {
            let slot = self.slot(random.below(SLOTS.into()) as u32)?;
            let holder = !self.is_above() || random.below(3) > 0;
            let begin = self.begin(&mut random);
            let begun = slot.begin(&match holder {
                true => begin,
                false => begin.without_holder(),
            });
            let request = match begun {
                Ok(begun) => begun.number,
                // While no class is applied, none is above the default.
                Err(error) if !holder && error.errno() == Some(Errno::PERM) => continue,
                Err(error) => return Err(error.into()),
            };
            self.submit(&slot, request, holder)?;
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

/// One that always has work.
struct Other {
    context: Context,
    tsg: tsg::Id,
    level: Level,
}

impl Other {
    fn new(lab: &Lab, spec: &ContextSpec<'_>, number: u8) -> Result<Self> {
        let (context, tsg) = lab.context(spec)?;
        let level = level(number);
        lab.zernel.set_class(&Target::Tsg(tsg.id), level)?;
        context.submit(0, &[Item::work(Duration::from_secs(60)); 60])?;
        Ok(Self {
            context,
            tsg: tsg.id,
            level,
        })
    }

    fn parts(&self) -> (&Context, tsg::Id, Level) {
        (&self.context, self.tsg, self.level)
    }
}

/// A request is served as if nothing had been.
fn serves(client: &Client, holder: bool) -> Outcome {
    let done = client.context.stats()?.completed;
    let slot = client.slot(0)?;
    let begin = Begin::new(client.tsg).key(9);
    let begin = if holder {
        begin
    } else {
        begin.without_holder()
    };
    let request = slot.begin(&begin)?.number;
    client.submit(&slot, request, holder)?;
    // A machine may be slower than a lease.
    let result = errno(slot.ready_call(request));
    ensure!(matches!(result, None | Some(Errno::STALE)), "{result:?}");
    wait_until("a request is served", || {
        let stats = client.context.stats()?;
        Ok(stats.completed > done && stats.queued == 0)
    })?;
    let result = errno(slot.done_call(request));
    ensure!(matches!(result, None | Some(Errno::STALE)), "{result:?}");
    Ok(())
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
    let before = lab.stats()?.errors;
    for (name, values) in POLICIES {
        let default = DEFAULTS.iter().find(|(known, _)| known == name);
        check_eq!(default, Some(&(*name, values[0])));
    }
    let clients: Vec<_> = CLIENTS
        .iter()
        .map(|&number| Client::new(&lab, number))
        .collect::<Result<_>>()?;
    let others: Vec<_> = OTHERS
        .iter()
        .map(|&number| Other::new(&lab, &ContextSpec::compute("other"), number))
        .collect::<Result<_>>()?;
    let copy = Other::new(&lab, &ContextSpec::copy("copy"), 7)?;
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
            println!("    # a client: {rounds} requests");
        }
        switched
    })?;
    // Without bounds nobody is throttled, so that slices stay.
    for number in 0..7 {
        tune(&format!("level{number}_budget_us"), 100_000)?;
    }
    nothing_is_stranded(&lab, &clients, &others)?;
    slices_are_those_of_policies(&lab, &clients, &others, &copy)?;
    // Nothing of it is left with them.
    drop((clients, others, copy));
    wait_until("nothing is listed", || Ok(lines("tsg ")?.is_empty()))?;
    for gpu in lines("gpu ")? {
        ensure!(gpu.contains(" tsgs 0 pending 0 suspended 0 "), "{gpu}");
    }
    check_eq!(lab.stats()?.errors, before, "errors of the provider");
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

fn nothing_is_stranded(lab: &Lab, clients: &[Client], others: &[Other]) -> Outcome {
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
    // Best-effort takes turns: the others are always scheduled.
    let theirs = clients
        .iter()
        .map(|client| (&client.context, client.level))
        .chain(others.iter().map(|other| (&other.context, other.level)));
    for (context, level) in theirs.filter(|(_, level)| *level != Level::BE) {
        wait_until("it is scheduled", || Ok(context.stats()?.enabled))
            .with_context(|| format!("level {}", level.number()))?;
    }
    let mut state = Vec::new();
    wait_until("everything is managed", || {
        state = lines("tsg ")?;
        let is_calm = |line: &String| line.ends_with(" managed 1 queued 0 failed 0");
        Ok(state.iter().all(is_calm))
    })
    .with_context(|| state.join("; "))?;
    // Each has its turn.
    for other in others.iter().filter(|other| other.level == Level::BE) {
        let before = other.context.stats()?.busy_ns;
        wait_until_within(2 * SOON, "best-effort runs", || {
            Ok(other.context.stats()?.busy_ns > before)
        })?;
    }
    for client in clients {
        serves(client, true)?;
        if client.is_above() {
            serves(client, false)?;
        }
    }
    Ok(())
}

/// With each policy of slices the GPU has the slice that the class is told; at last, that of the table.
fn slices_are_those_of_policies(
    lab: &Lab,
    clients: &[Client],
    others: &[Other],
    copy: &Other,
) -> Outcome {
    let clients = clients
        .iter()
        .map(|client| (&client.context, client.tsg, client.level));
    let others = others.iter().map(Other::parts);
    let all: Vec<_> = clients.chain(others).collect();
    let (name, policies) = POLICIES
        .iter()
        .find(|(name, _)| *name == "slice_policy")
        .context("it has a row")?;
    for policy in policies.iter().rev() {
        tune(name, policy)?;
        for (context, tsg, level) in all.iter().copied().chain([copy.parts()]) {
            let mut seen = (0, 0);
            wait_until("the GPU has the slice that is told", || {
                let told = lab.zernel.class(&Target::Tsg(tsg))?.timeslice_us.value;
                seen = (told, context.stats()?.timeslice_us);
                Ok(seen.0 == seen.1)
            })
            .with_context(|| format!("{policy}, level {}: {seen:?}", level.number()))?;
        }
    }
    for (context, _, level) in all {
        lab.wait_slice(context, slice_of(level.number()))
            .with_context(|| format!("level {}", level.number()))?;
    }
    lab.wait_slice(&copy.context, default_of("copy_timeslice_us"))
}
