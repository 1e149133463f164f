// SPDX-License-Identifier: GPL-2.0
//! The end of subscriptions: their process is silent, their file takes them along.

use std::fs::File;
use std::os::fd::AsFd;

use libzernel::prefetch::Ranges;
use libzernel::{Target, Zernel};
use rustix::io::Errno;

use super::{wait_subscriptions, Bell, Signaller};
use crate::check_eq;
use crate::child::Child;
use crate::common::{self, errno};
use crate::harness::Outcome;
use crate::track::wait_count;

pub(super) fn process_is_killed() -> Outcome {
    let zernel = Zernel::open()?;
    let child = Child::idle(|| Ok(()))?;
    let pid = child.pid();
    let (bell, subscription) = Bell::of(&zernel, &Target::Process(pid))?;
    Signaller::new(&zernel, pid)?.signal(1)?;
    child.kill()?;
    child.end()?;
    wait_count(&zernel, 0)?;
    let (own, _own) = Bell::of(&zernel, &Target::current_process())?;
    Signaller::own(&zernel)?.signal(2)?;
    check_eq!((bell.rings(1)?, own.rings(2)?), (1, 2));
    // It counts until it is ended.
    check_eq!(zernel.stats()?.subscriptions, 2);
    let again = zernel.subscribe_eventfd(&Target::Process(pid), bell.0.as_fd());
    check_eq!(errno(again), Some(Errno::SRCH));
    subscription.unsubscribe()?;
    wait_subscriptions(&zernel, 1)?;
    Ok(())
}

pub(super) fn file_is_closed() -> Outcome {
    let zernel = Zernel::open()?;
    let me = Target::current_process();
    let file = File::open("/proc/self/exe")?;
    let bell = Bell::new()?;
    let subscribe = |zernel: &Zernel| -> Outcome {
        let ranges = Ranges {
            offset: 0,
            length: 1 << 20,
            span: 0,
        };
        zernel.subscribe_eventfd(&me, bell.0.as_fd())?.keep();
        zernel
            .subscribe_read_ahead(&me, file.as_fd(), &ranges)?
            .keep();
        Ok(())
    };
    let signaller = Signaller::own(&zernel)?;
    let closed = Zernel::open()?;
    subscribe(&closed)?;
    signaller.signal(1)?;
    check_eq!(bell.rings(1)?, 1);
    drop(closed);
    wait_subscriptions(&zernel, 0)?;
    signaller.signal(1)?;
    check_eq!(bell.rings(0)?, 0);
    // Whoever has the file, too, keeps them.
    let shared = Zernel::open()?;
    subscribe(&shared)?;
    let child = Child::idle(|| Ok(()))?;
    drop(shared);
    signaller.signal(1)?;
    check_eq!((bell.rings(1)?, zernel.stats()?.subscriptions), (1, 2));
    child.kill()?;
    child.end()?;
    wait_subscriptions(&zernel, 0)?;
    signaller.signal(1)?;
    check_eq!(bell.rings(0)?, 0);
    Ok(())
}

/// A file with subscriptions keeps the module, and nothing is left of it afterwards.
pub(super) fn module_stays() -> Outcome {
    common::unload_soon("zernel_sim")?;
    let zernel = Zernel::open()?;
    let me = Target::current_process();
    let file = File::open("/proc/self/exe")?;
    let ranges = Ranges {
        offset: 0,
        length: 1 << 20,
        span: 0,
    };
    let (_bell, subscription) = Bell::of(&zernel, &me)?;
    let ahead = zernel.subscribe_read_ahead(&me, file.as_fd(), &ranges)?;
    let signaller = Signaller::own(&zernel)?;
    signaller.signal(1)?;
    zernel.untrack(&me)?;
    wait_count(&zernel, 0)?;
    drop(zernel);
    // The subscriptions have the file now.
    check_eq!(common::try_unload("zernel"), Err(Errno::AGAIN));
    drop(ahead);
    check_eq!(common::try_unload("zernel"), Err(Errno::AGAIN));
    drop(subscription);
    common::unload_all()?;
    common::load_all()
}
