// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices that follow the slack of TSGs.

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Begin, Number, Slot, Slots};
use libzernel::sim::{Context, Item};
use libzernel::{Level, Target, Zernel};

use testkit::passing;

use super::ENDLESS;
use crate::check_eq;
use crate::child::Child;
use crate::common::{
    default_of, level, load_all, told_slice_of, tune, unload_soon, wait_until, wait_until_within,
    Lab, Lacking, SOON,
};
use crate::harness::Outcome;

/// The slice of level 3.
const TABLE: u32 = 10_000;

const FAR: Duration = Duration::from_secs(60);

/// A TSG of level 3 with a slot.
struct Tenant {
    context: Context,
    tsg: libzernel::tsg::Id,
    slots: Slots,
}

impl Tenant {
    fn new(lab: &Lab) -> Result<Self> {
        let (context, tsg) = lab.compute()?;
        lab.zernel.set_class(&Target::Tsg(tsg.id), level(3))?;
        let slots = Slots::map(&Zernel::open()?, 0..1)?;
        Ok(Self {
            context,
            tsg: tsg.id,
            slots,
        })
    }

    fn slot(&self) -> Result<Slot<'_>> {
        self.slots.slot(0).context("it was mapped")
    }

    fn begin(&self, slo: Duration) -> Result<Number> {
        let slot = self.slot()?;
        let request = slot.begin(&Begin::new(self.tsg).key(1).slo(slo))?.number;
        slot.ready_call(request)?;
        Ok(request)
    }

    /// A request with so much work.
    fn serve(&self, slo: Duration, work: Duration) -> Outcome {
        let request = self.begin(slo)?;
        let done = self.context.stats()?.completed;
        self.context.submit(0, &[Item::work(work)])?;
        wait_until("a request is done", || {
            Ok(self.context.stats()?.completed > done)
        })?;
        Ok(self.slot()?.done_call(request)?)
    }

    fn slice(&self) -> Result<u32> {
        Ok(self.context.stats()?.timeslice_us)
    }

    /// It has something to run from now on.
    fn work(&self) -> Outcome {
        self.context.submit(0, &[Item::work(ENDLESS); 60])?;
        Ok(())
    }
}

fn stage() -> Result<Lab> {
    let lab = Lab::open()?;
    tune("rotation", "none")?;
    // Requests are not to expire, however slow the machine, and nobody is to be throttled.
    tune("lease_us", 10_000_000)?;
    tune("level3_budget_us", 100_000)?;
    check_eq!(default_of("level3_timeslice_us"), TABLE);
    Ok(lab)
}

/// A TSG whose requests have time has short slices, one that is late has long ones for the time that it
/// gave, and one without requests that of the table.
pub(super) fn slices_follow_slacks() -> Outcome {
    let lab = stage()?;
    tune("slack_credit_us", 10_000_000)?;
    tune("slice_policy", "slack")?;
    let (one, other) = (Tenant::new(&lab)?, Tenant::new(&lab)?);
    for _ in 0..5 {
        one.serve(FAR, Duration::from_millis(2))?;
    }
    other.work()?;
    one.work()?;
    let early = one.begin(FAR)?;
    lab.wait_slice(&one.context, default_of("slack_early_us"))?;
    // A decision may fall between the two looks.
    wait_until("the class tells that slice", || {
        let told = lab.zernel.class(&Target::Tsg(one.tsg))?.timeslice_us.value;
        Ok(told == default_of("slack_early_us"))
    })?;
    // It gives the other one time meanwhile.
    let before = other.context.stats()?.busy_ns;
    wait_until_within(2 * SOON, "the other one runs", || {
        Ok(other.context.stats()?.busy_ns > before + 1_000_000_000)
    })?;
    tune("slack_early_us", 700)?;
    lab.wait_slice(&one.context, 700)?;
    one.begin(Duration::from_micros(1))?;
    wait_until("a late one has a longer slice", || Ok(one.slice()? > TABLE))?;
    // The other one told nothing.
    check_eq!(other.slice()?, TABLE);
    ensure!(one.slot()?.done_call(early).is_err(), "it is over");
    let last = one.begin(FAR)?;
    one.slot()?.cancel(last)?;
    lab.wait_slice(&one.context, TABLE)?;
    // A policy that is another one meanwhile.
    one.begin(FAR)?;
    wait_until("it has time", || Ok(one.slice()? != TABLE))?;
    tune("slice_policy", "table")?;
    lab.wait_slice(&one.context, TABLE)?;
    tune("slice_policy", "slack")?;
    // Nothing is known of it any more.
    std::thread::sleep(Duration::from_millis(20));
    lab.wait_slice(&one.context, TABLE)
}

/// Where TSGs cannot be looked at slices are those of the table, and the log names that.
pub(super) fn without_looks() -> Outcome {
    let lacking = Lacking::new("query_tsg")?;
    let lab = stage()?;
    tune("slack_credit_us", 10_000_000)?;
    tune("slice_policy", "slack")?;
    let one = Tenant::new(&lab)?;
    lab.wait_slice(&one.context, TABLE)?;
    one.work()?;
    one.begin(Duration::from_micros(1))?;
    lacking.wait_named("slice_policy slack", &["query_tsg"])?;
    // Several quanta.
    std::thread::sleep(Duration::from_millis(50));
    check_eq!(one.slice()?, TABLE);
    let told = lab.zernel.class(&Target::Tsg(one.tsg))?.timeslice_us.value;
    check_eq!(told, TABLE, "as its class tells");
    Ok(())
}

/// Slices are those of the table again with the process that has the requests, with another policy, and
/// places come back with the provider.
pub(super) fn slacks_end() -> Outcome {
    let lab = stage()?;
    tune("slack_credit_us", 10_000_000)?;
    tune("slice_policy", "slack")?;
    let early = default_of("slack_early_us");
    let one = Tenant::new(&lab)?;
    for _ in 0..5 {
        one.serve(FAR, Duration::from_millis(2))?;
    }
    // Another process of the user has requests of the TSG, and is killed.
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        let slots = Slots::map(&Zernel::open()?, 0..1)?;
        let slot = slots.slot(0).context("it was mapped")?;
        slot.begin(&Begin::new(one.tsg).key(1).slo(FAR))?;
        passing::send_number(&theirs, 0)?;
        std::thread::sleep(FAR);
        Ok(())
    })?;
    passing::receive_number(&ours)?;
    lab.wait_slice(&one.context, early)?;
    child.kill()?;
    child.end()?;
    lab.wait_slice(&one.context, TABLE)?;
    // Other policies, and another level, while one is in flight.
    let open = one.begin(FAR)?;
    for policy in ["table", "pid", "exponential"] {
        lab.wait_slice(&one.context, early)?;
        tune("slice_policy", policy)?;
        lab.wait_slice(&one.context, TABLE)?;
        tune("slice_policy", "slack")?;
        // Nothing is known of it any more.
        for _ in 0..2 {
            one.serve(FAR, Duration::from_millis(2))?;
        }
        one.begin(FAR)?;
    }
    ensure!(one.slot()?.done_call(open).is_err(), "it is over");
    lab.wait_slice(&one.context, early)?;
    lab.zernel.set_class(&Target::Tsg(one.tsg), Level::BE)?;
    lab.wait_slice(&one.context, told_slice_of(7))?;
    // The provider goes with requests in flight, whose places others have then.
    drop((one, lab));
    unload_soon("zernel_sim")?;
    load_all()?;
    let lab = stage()?;
    let two = Tenant::new(&lab)?;
    for _ in 0..5 {
        two.serve(FAR, Duration::from_millis(2))?;
    }
    two.begin(FAR)?;
    lab.wait_slice(&two.context, early)
}

/// A tenant whose deadlines are always over has the slice of the table and its share; one that has time
/// gives it no more than the credit.
pub(super) fn a_liar_gains_nothing() -> Outcome {
    const SPENT_NS: u64 = 300_000_000;
    let lab = stage()?;
    tune("slice_policy", "slack")?;
    let (liar, honest) = (Tenant::new(&lab)?, Tenant::new(&lab)?);
    let (urgent, urgent_tsg) = lab.compute()?;
    lab.zernel
        .set_class(&Target::Tsg(urgent_tsg.id), Level::LC)?;
    for tenant in [&liar, &honest] {
        for _ in 0..3 {
            tenant.serve(FAR, Duration::from_millis(2))?;
        }
    }
    for tenant in [&liar, &honest] {
        tenant.work()?;
    }
    let busy = |tenant: &Tenant| -> Result<u64> { Ok(tenant.context.stats()?.busy_ns) };
    let before = (busy(&liar)?, busy(&honest)?);
    honest.begin(FAR)?;
    let mut longest = 0;
    wait_until_within(2 * SOON, "the liar has run", || {
        liar.begin(Duration::from_nanos(1))?;
        let ran = busy(&liar)? - before.0;
        // Time that its first requests may have given is used up by then.
        if ran > SPENT_NS {
            longest = longest.max(liar.slice()?);
        }
        Ok(ran > 4 * SPENT_NS)
    })?;
    check_eq!(longest, TABLE, "the longest slice of the liar");
    let ran = (busy(&liar)? - before.0, busy(&honest)? - before.1);
    ensure!(
        ran.0 * 10 < (ran.0 + ran.1) * 6,
        "the liar has {} of {} ns",
        ran.0,
        ran.0 + ran.1
    );
    // Nor do more urgent ones wait for it.
    let done = urgent.stats()?.completed;
    urgent.submit(0, &[Item::work(Duration::from_micros(100))])?;
    wait_until("urgent work is done", || {
        Ok(urgent.stats()?.completed == done + 1)
    })?;
    ensure!(liar.slice()? <= TABLE, "a longer slice");
    Ok(())
}
