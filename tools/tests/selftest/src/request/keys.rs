// SPDX-License-Identifier: GPL-2.0
//! Keys: each user has its own, and loses them to no other user.

use std::os::fd::OwnedFd;

use anyhow::{ensure, Result};
use libzernel::request::Begin;
use testkit::{passing, Repeat};

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
/// Keys of the other user.
const FEW: u64 = 3;

/// A user who learns some keys, and tells later whether they are still known.
fn learner(socket: &OwnedFd, key: u64) -> Result<()> {
    sys::become_user(ALICE, ALICE, &[])?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slot = client.slot(0);
    for key in key..key + FEW {
        prepare(&slot, &Begin::new(client.tsg).key(key))?;
    }
    passing::send_number(socket, key)?;
    passing::receive_number(socket)?;
    for key in key..key + FEW {
        let told = predicted(&slot, &Begin::new(client.tsg).key(key))?;
        ensure!(told.is_some(), "key {key} is forgotten");
    }
    Ok(())
}

/// The same number is another key for another user.
pub(super) fn of_users() -> Outcome {
    longest_lease()?;
    let key = new_key();
    for (user, known) in [(ALICE, false), (ALICE, true), (BOB, false), (BOB, true)] {
        crate::child::in_child(|| {
            sys::become_user(user, user, &[])?;
            let lab = Lab::open()?;
            let client = Client::new(&lab)?;
            let slot = client.slot(0);
            let begin = Begin::new(client.tsg).key(key);
            let told = predicted(&slot, &begin)?;
            // It outlives the process, the file and the TSG that it was learned with.
            check_eq!(told.is_some(), known, "user {user}: {told:?}");
            prepare(&slot, &begin)?;
            slot.cancel(slot.begin(&begin)?.number)?;
            Ok(())
        })?;
    }
    Ok(())
}

pub(super) fn are_not_evicted_by_others() -> Outcome {
    longest_lease()?;
    let (ours, theirs) = passing::pair()?;
    let first_key = new_key();
    let alice = Child::spawn(|| learner(&theirs, first_key))?;
    passing::receive_number(&ours)?;
    let bob = Child::spawn(|| {
        sys::become_user(BOB, BOB, &[])?;
        let lab = Lab::open()?;
        let client = Client::new(&lab)?;
        let slot = client.slot(0);
        let begin = Begin::new(client.tsg);
        let first = new_key();
        let mut repeat = Repeat::new(MANY, "keys");
        for key in &mut repeat {
            // Without time in between: a preparation of next to nothing.
            let request = slot.begin(&begin.key(first + key))?.number;
            slot.done_call(request)?;
        }
        let last = first + repeat.done() - 1;
        let told = predicted(&slot, &begin.key(last))?;
        ensure!(told.is_some(), "the newest key is forgotten");
        if repeat.done() > MOST {
            // No more than there is room for.
            check_eq!(predicted(&slot, &begin.key(first))?, None, "the oldest");
        }
        Ok(())
    })?;
    bob.join_within(20 * SOON)?;
    passing::send_number(&ours, 0)?;
    alice.join()?;
    Ok(())
}
