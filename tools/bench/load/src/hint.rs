// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hints of a client that it will need the GPU: the items in its stream before the kernels, and the
//! stores to the words that the stream waits for.
//!
//! A request is *ready* when its data is on the GPU: after the copy in, which runs on another
//! engine and needs no switch. So the prediction covers the preparation and the copy together.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Begin, Features, Number, Of, Slot, Slots, Word};
use libzernel::sim::{Completion, Condition, Context, Item, Sim, Status, Words};
use libzernel::{tsg, Target, Timestamp, Zernel};
use serde::{Deserialize, Serialize};
use zernel_report::outcome::HintUse;
use zernel_workload::{ClientSpec, Next, Traced};

use crate::stamps::tag;

/// Longest time that a holder keeps the GPU by itself: above the longest lease that is usual.
const BOUND: Duration = Duration::from_millis(150);

/// Semaphore words of a channel.
pub const WORDS: u32 = 4;

/// The word of a channel that its kernels wait for: the number of the last ready request.
pub const DATA: u32 = 3;

/// Slots of a process, one for each channel.
const SLOTS: u32 = 64;

/// Share of the GPU that a holder uses: one of about a hundred SMs.
const DEMAND_PERMILLE: u32 = 10;

/// The time that a request has left which arrived too long ago; none would be no deadline.
pub const SHORTEST_SLO: Duration = Duration::from_nanos(1);

/// The shortest kernel: the part of the holder that runs before it stores its word.
const LEAST: Duration = Duration::from_micros(1);

/// The side that triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hint {
    /// The client itself, a constant time after the begin, in nanoseconds.
    Constant(u64),
    /// zernel.
    Request,
}

/// Open files of a process that gives hints.
#[derive(Debug)]
enum Kind {
    Constant {
        words: Arc<Words>,
        lead: Duration,
    },
    Request {
        zernel: Zernel,
        slots: Slots,
        tsg: tsg::Id,
    },
}

/// The hints of a process.
#[derive(Debug)]
pub struct Hints {
    kind: Kind,
}

impl Hints {
    /// Hints for the kernels of `context`, the only compute TSG of this process.
    ///
    /// `words` are its semaphore words.
    pub fn open(hint: Hint, context: &Context, words: &Arc<Words>) -> Result<Self> {
        let kind = match hint {
            Hint::Constant(lead) => Kind::Constant {
                words: words.clone(),
                lead: Duration::from_nanos(lead),
            },
            Hint::Request => {
                let zernel = Zernel::open()?;
                let slots = Slots::map(&zernel, 0..SLOTS)?;
                context.add_memory(slots.memory())?;
                let tsg = own_tsg(&zernel)?;
                Kind::Request { zernel, slots, tsg }
            }
        };
        Ok(Self { kind })
    }

    /// Their counters so far; nothing is known of constant ones.
    pub fn used(&self) -> Result<HintUse> {
        let Kind::Request { zernel, tsg, .. } = &self.kind else {
            return Ok(HintUse::default());
        };
        used(zernel, *tsg)
    }
}

/// Counters of the requests of a TSG.
pub fn used(zernel: &Zernel, tsg: tsg::Id) -> Result<HintUse> {
    let stats = zernel.request_stats(Of::Tsg(tsg))?;
    Ok(HintUse {
        requests: stats.begun,
        triggers: stats.triggers,
        early: stats.early,
        early_ns: stats.early_ns,
        late: stats.late,
        late_ns: stats.late_ns,
        expired: stats.expired,
        switch_ns: switch_ns(zernel, tsg)?,
    })
}

/// Time of a switch of the GPU of a TSG, as learned by zernel, in nanoseconds.
fn switch_ns(zernel: &Zernel, id: tsg::Id) -> Result<u64> {
    let tsg = zernel.tsgs_of(&Target::Tsg(id)).next();
    let gpu = tsg.context("the TSG is gone")??.gpu;
    let mut gpus = zernel.gpus();
    let gpu = gpus.find(|known| known.as_ref().map_or(true, |known| known.id == gpu));
    Ok(gpu.context("the GPU is gone")??.switch_ns)
}

/// zernel's id of the compute TSG of this process.
pub fn own_tsg(zernel: &Zernel) -> Result<tsg::Id> {
    let pid = std::process::id();
    let mut newest = None;
    for tsg in zernel.tsgs() {
        let tsg = tsg?;
        if tsg.pid == pid && tsg.compute {
            newest = Some(tsg.id);
        }
    }
    newest.context("zernel lists no TSG of this process; load zernel_sim before")
}

/// The hints of one client: the requests of a channel.
#[derive(Debug)]
pub struct Stream<'a> {
    hints: &'a Hints,
    channel: u32,
    begin: Option<Begin>,
    request: Number,
    /// When the client itself triggers the request that it is at.
    trigger_at: Option<Timestamp>,
    told: Option<Told>,
}

/// The plan of a request.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    /// When the GPU is taken for it.
    pub trigger_at: Timestamp,
    /// The time from its begin at which its data is expected, if that is known.
    pub predicted: Option<Duration>,
}

/// The features of a client's request: those that its preparation follows from, if it has a size. They
/// count while the tunable `predictor` is `features`.
pub fn features(spec: &ClientSpec, seed: u64, next: &Next) -> Option<Features> {
    let told = || Features::new(&spec.prepare_us.features(seed, next.number));
    spec.prepare_us.has_size().then(told).flatten()
}

/// With what a trace tells of a request that arrived `late` ago.
fn told(begin: Begin, traced: &Traced, late: Duration) -> Begin {
    let begin = match traced.key {
        Some(key) => begin.key(key),
        None => begin,
    };
    match traced.left(late, SHORTEST_SLO) {
        Some(left) => begin.slo(left),
        None => begin,
    }
}

impl<'a> Stream<'a> {
    /// Of a channel of the context; `key` stands for the causes of its preparation time.
    pub fn new(hints: &'a Hints, channel: u32, key: u64) -> Self {
        let begin = match &hints.kind {
            Kind::Constant { .. } => None,
            Kind::Request { tsg, .. } => Some(Begin::new(*tsg).key(key)),
        };
        Self {
            hints,
            channel,
            begin,
            request: Number::new(u32::MAX).expect("it is not 0"),
            trigger_at: None,
            told: None,
        }
    }

    /// The plan of the request that it is at.
    pub fn told(&self) -> Option<Told> {
        self.told
    }

    fn slot(&self, slots: &'a Slots) -> Result<Slot<'a>> {
        slots
            .slot(self.channel)
            .context("the slots are fewer than the channels")
    }

    /// The words of the stream: trigger, release, held. Those of zernel are in its slot, others in
    /// the semaphore page.
    fn words(&self) -> Result<[u32; 3]> {
        Ok(match &self.hints.kind {
            Kind::Constant { .. } => [0, 1, 2].map(|word| self.channel * WORDS + word),
            Kind::Request { slots, .. } => {
                let slot = self.slot(slots)?;
                [Word::Trigger, Word::Release, Word::Held].map(|word| slot.word(word))
            }
        })
    }

    /// Begins a request that arrived `late` ago, with these features, and of which a trace tells
    /// something. Returns its number, and the items before its kernels in the stream: the wait and the
    /// holder.
    pub fn begin(
        &mut self,
        traced: &Traced,
        late: Duration,
        features: Option<Features>,
    ) -> Result<(Number, [Item; 4])> {
        match (&self.hints.kind, &self.begin) {
            (Kind::Request { slots, .. }, Some(begin)) => {
                let mut begin = told(*begin, traced, late);
                if let Some(features) = features {
                    begin = begin.features(features);
                }
                let begun = self.slot(slots)?.begin(&begin)?;
                self.request = begun.number;
                self.told = Some(Told {
                    trigger_at: begun.trigger_at,
                    predicted: begun.predicted,
                });
            }
            (Kind::Constant { lead, .. }, _) => {
                self.request = self.request.next();
                let trigger_at = Timestamp::now() + *lead;
                self.trigger_at = Some(trigger_at);
                self.told = Some(Told {
                    trigger_at,
                    predicted: None,
                });
            }
            (Kind::Request { .. }, None) => {}
        }
        let (number, [trigger, release, held]) = (self.request.get(), self.words()?);
        let wait = Item::wait(trigger, Condition::AtLeast, number);
        let wait = match &self.hints.kind {
            Kind::Request { .. } => wait,
            // The client itself stores the word.
            Kind::Constant { .. } => wait.rung(),
        };
        let items = [
            wait,
            Item::work(LEAST).demand_permille(DEMAND_PERMILLE),
            Item::release(held, number),
            Item::hold(release, Condition::AtLeast, number, BOUND)
                .demand_permille(DEMAND_PERMILLE)
                .rung()
                .notify()
                .tag(tag::HOLD),
        ];
        Ok((self.request, items))
    }

    /// When the client is to call [`Self::trigger`], if it is and has not yet.
    pub fn trigger_at(&self) -> Option<Timestamp> {
        self.trigger_at
    }

    /// The client's time to trigger has come. The GPU sees it when its doorbell is rung.
    pub fn trigger(&mut self) -> Result<()> {
        self.trigger_at = None;
        if let Kind::Constant { words, .. } = &self.hints.kind {
            words.store(self.words()?[0], self.request.get());
        }
        Ok(())
    }

    /// The data is ready. The GPU sees it when its doorbell is rung.
    pub fn ready(&mut self) -> Result<()> {
        match &self.hints.kind {
            Kind::Request { slots, .. } => self.slot(slots)?.ready(self.request),
            Kind::Constant { words, .. } => {
                let [trigger, release, _] = self.words()?;
                words.store(release, self.request.get());
                self.trigger_at = None;
                words.store(trigger, self.request.get());
            }
        }
        Ok(())
    }

    /// The result is there.
    pub fn done(&self) -> Result<()> {
        match &self.hints.kind {
            Kind::Request { slots, .. } => self.slot(slots)?.done(self.request),
            Kind::Constant { .. } => {}
        }
        Ok(())
    }
}

/// The holders of a process: how long they have held the GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Nanoseconds.
    pub ns: u64,
    /// Holders that ended by their bound.
    pub expired: u64,
}

impl Held {
    /// Adds the holders that have ended since the last call, and returns all that was reported since.
    pub fn collect(&mut self, sim: &Sim) -> Result<Vec<Completion>> {
        let (ended, dropped) = sim.completions(16)?;
        ensure!(dropped == 0, "the software GPU has dropped completions");
        for one in ended.iter().filter(|one| one.tag & tag::HOLD != 0) {
            self.ns += one.end.since(one.start).as_nanos() as u64;
            self.expired += u64::from(one.status == Status::HoldExpired);
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_told_where_the_preparation_follows_from_it() {
        let client = |prepare: &str| {
            let text = format!(
                "{{name: mine, seconds: 1, clients: [{{role: lc, network: vgg, arrival: closed, \
                 prepare_us: {prepare}}}]}}"
            );
            zernel_workload::Workload::from_yaml(&text).unwrap().clients[0].clone()
        };
        let next = |number| Next {
            tick: Duration::ZERO,
            number,
            dropped: 0,
            overtaken: 0,
            traced: Traced::default(),
        };
        let sized = client("{sized: {base: 40, low: 50, high: 800}}");
        for number in 0..20 {
            let prepare = sized.prepare_us.sample(7, number, Duration::ZERO);
            let size = (prepare.as_nanos() as i64 - 40_000) / 1_000;
            let near = |size: i64| Features::new(&[size]);
            let told = features(&sized, 7, &next(number));
            let exact = sized.prepare_us.features(7, number);
            assert_eq!(told, near(exact[0]), "{number}");
            assert!((exact[0] / 1_000 - size).abs() <= 1, "{exact:?} for {size}");
        }
        for plain in ["200", "{uniform: {low: 50, high: 800}}"] {
            assert_eq!(features(&client(plain), 7, &next(3)), None, "{plain}");
        }
    }

    #[test]
    fn a_request_of_a_trace_tells_its_key_and_the_rest_of_its_deadline() {
        let begin = Begin::new(tsg::Id::new(7)).key(3);
        let ms = Duration::from_millis;
        assert_eq!(told(begin, &Traced::default(), ms(1)), begin);
        let traced = Traced {
            key: Some(9),
            size: 4,
            deadline: Some(ms(5)),
        };
        assert_eq!(told(begin, &traced, ms(2)), begin.key(9).slo(ms(3)));
        let over = told(begin, &traced, ms(6));
        assert_eq!(over, begin.key(9).slo(Duration::from_nanos(1)));
    }
}
