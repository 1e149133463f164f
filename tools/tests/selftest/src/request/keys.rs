// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys: each user has its own, and loses them to no other user.

use anyhow::{ensure, Result};
use libzernel::request::{Begin, Slot};
use testkit::Repeat;

use super::predictions::{predicted, prepare};
use super::{longest_lease, new_key, Client};
use crate::check_eq;
use crate::child::Child;
use crate::common::{Lab, SOON};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB};
use crate::sys;

/// Keys that a hostile user makes: more than there can be at a time.
const MANY: u64 = 100_000;
/// Keys that there can be at a time.
const MOST: u64 = 65_536;

/// Requests by a process of a user.
fn by(user: u32, run: impl FnOnce(&Slot<'_>, Begin) -> Result<()>) -> Outcome {
    let child = Child::spawn(|| {
        sys::become_user(user, user, &[])?;
        let lab = Lab::open()?;
        let client = Client::new(&lab)?;
        run(&client.slot(0), Begin::new(client.tsg))
    })?;
    child.join_within(20 * SOON)
}

/// The same number is another key for another user. What is learned of it outlives the process, the
/// file and the TSG, and is not lost to another user's keys.
pub(super) fn of_users() -> Outcome {
    longest_lease()?;
    let first = new_key();
    let known = first..first + 3;
    by(ALICE, |slot, begin| {
        for key in known.clone() {
            check_eq!(predicted(slot, &begin.key(key))?, None, "a new key");
            prepare(slot, &begin.key(key))?;
        }
        Ok(())
    })?;
    by(BOB, |slot, begin| {
        for key in known.clone() {
            check_eq!(predicted(slot, &begin.key(key))?, None, "alice's");
        }
        let first = new_key();
        let mut repeat = Repeat::new(MANY, "keys");
        for key in &mut repeat {
            // Without time in between: a preparation of next to nothing.
            let request = slot.begin(&begin.key(first + key))?.number;
            slot.done_call(request)?;
        }
        let newest = predicted(slot, &begin.key(first + repeat.done() - 1))?;
        ensure!(newest.is_some(), "the newest key is forgotten");
        if repeat.done() > MOST {
            // No more than there is room for.
            check_eq!(predicted(slot, &begin.key(first))?, None, "the oldest");
        }
        Ok(())
    })?;
    by(ALICE, |slot, begin| {
        for key in known.clone() {
            let told = predicted(slot, &begin.key(key))?;
            ensure!(told.is_some(), "key {key} is forgotten");
        }
        Ok(())
    })
}
