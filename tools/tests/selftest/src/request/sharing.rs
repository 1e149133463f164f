// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that share a GPU: being early has another cost for their predictions.

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Begin, Features, Slot};
use libzernel::{Level, Target, Timestamp};

use super::predictions::predicted;
use super::{lab, new_key, Client};
use crate::common::{level, switch_ns, tune, Lab};
use crate::harness::Outcome;

/// Preparation times, far apart, as many of each.
const TIMES: [Duration; 2] = [Duration::from_millis(3), Duration::from_millis(60)];

/// A TSG that has begun nothing for so long shares with nobody: 1 s, and some more.
const APART: Duration = Duration::from_millis(1_100);

/// A key with preparations of both times.
fn teach(slot: &Slot<'_>, begin: &Begin) -> Outcome {
    for n in 0..24 {
        let time = TIMES[n % 2];
        let number = slot.begin(begin)?.number;
        let ready = Timestamp::now() + time;
        std::thread::sleep(time);
        slot.ready_at(number, ready);
        slot.done(number);
    }
    // The next begin knows the newest one.
    predicted(slot, begin)?;
    Ok(())
}

/// Another client of this level.
fn neighbour(lab: &Lab, level: Option<Level>) -> Result<Client> {
    let client = Client::new(lab)?;
    if let Some(level) = level {
        lab.zernel.set_class(&Target::Tsg(client.tsg), level)?;
    }
    Ok(client)
}

/// A request of a neighbour begins, and is over.
fn begin_of(client: &Client) -> Outcome {
    predicted(&client.slot(0), &Begin::new(client.tsg).key(new_key()))?;
    Ok(())
}

/// True if a look right behind a begin of a neighbour finds it: less than a second later, which a machine
/// that is busy has to try again.
fn beside(neighbour: &Client, look: impl Fn() -> Result<bool>) -> Result<bool> {
    for _ in 0..10 {
        begin_of(neighbour)?;
        if look()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True if the longer time is told.
fn is_late(told: Option<Duration>) -> bool {
    told.is_some_and(|told| told > TIMES[1] / 2)
}

/// Two LC TSGs that begin by turns are predicted by the shared cost; one alone is not, nor beside one of
/// its own slots, one without privilege, or one that began a second before; with features as without.
pub(super) fn has_its_cost() -> Outcome {
    let (lab, client) = lab()?;
    lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
    let (slot, second) = (client.slot(0), client.slot(1));
    let begin = Begin::new(client.tsg).key(new_key());
    teach(&slot, &begin)?;
    let other = neighbour(&lab, Some(Level::LC))?;
    let look = || predicted(&slot, &begin);
    ensure!(!is_late(look()?), "by default {:?}", look()?);
    begin_of(&other)?;
    ensure!(!is_late(look()?), "shared, by default {:?}", look()?);
    for predictor in ["quantile", "features"] {
        tune("predictor", predictor)?;
        let look = |slot| -> Result<bool> {
            let sized = match predictor {
                "features" => begin.features(Features::new(&[5]).context("one feature")?),
                _ => begin,
            };
            Ok(is_late(predicted(slot, &sized)?))
        };
        std::thread::sleep(APART);
        tune("shared_early_cost", 1_000_000)?;
        for slot in [&slot, &second, &slot] {
            ensure!(!look(slot)?, "{predictor}: alone");
        }
        for low in [None, Some(level(6)), Some(Level::BE)] {
            begin_of(&neighbour(&lab, low)?)?;
            ensure!(!look(&slot)?, "{predictor}: beside one of level {low:?}");
        }
        for slot in [&slot, &second, &slot] {
            let is_shared = beside(&other, || look(slot))?;
            ensure!(is_shared, "{predictor}: shared");
        }
        let fifth = neighbour(&lab, Some(level(5)))?;
        std::thread::sleep(APART);
        let is_shared = beside(&fifth, || look(&slot))?;
        ensure!(is_shared, "{predictor}: beside one of level 5");
        std::thread::sleep(APART);
        for slot in [&slot, &second] {
            ensure!(!look(slot)?, "{predictor}: alone again");
        }
        let is_shared = beside(&other, || look(&slot))?;
        ensure!(is_shared, "{predictor}: shared again");
        tune("shared_early_cost", "none")?;
        ensure!(!look(&slot)?, "{predictor}: as usual");
    }
    Ok(())
}

/// A neighbour that begins without end moves a prediction to that of the shared cost, and no further; the
/// trigger is earlier by the switch, as alone.
pub(super) fn is_bounded() -> Outcome {
    let (lab, client) = lab()?;
    lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
    let slot = client.slot(0);
    let begin = Begin::new(client.tsg).key(new_key());
    teach(&slot, &begin)?;
    let alone = predicted(&slot, &begin)?;
    tune("early_cost", 48)?;
    let dear = predicted(&slot, &begin)?;
    ensure!(alone < dear, "{alone:?} and {dear:?}");
    tune("early_cost", 1)?;
    tune("shared_early_cost", 48)?;
    let hostile = neighbour(&lab, Some(Level::LC))?;
    for n in 0..500 {
        begin_of(&hostile)?;
        let told = predicted(&slot, &begin)?;
        ensure!([alone, dear].contains(&told), "{told:?} after {n}");
    }
    let is_shared = beside(&hostile, || Ok(predicted(&slot, &begin)? == dear))?;
    ensure!(is_shared, "never shared");
    // All of the switch comes off, as with the usual costs, and not a 48th.
    begin_of(&hostile)?;
    let before = Timestamp::now();
    let begun = slot.begin(&begin)?;
    slot.cancel(begun.number)?;
    let told = begun.predicted.unwrap_or_default();
    let switch = Duration::from_nanos(switch_ns(&lab.zernel, client.tsg)?);
    let most = Timestamp::now() + told.saturating_sub(switch);
    ensure!(
        begun.trigger_at >= before && begun.trigger_at <= most,
        "{} with {told:?} and a switch of {switch:?}",
        begun.trigger_at
    );
    Ok(())
}
