// SPDX-License-Identifier: GPL-2.0
//! Every combination of caller, target, class that was given before and request.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};
use libzernel::class::{Attributes, Set};
use libzernel::{Target, Weight, Zernel};
use rustix::io::Errno;

use super::{owner_process, ALICE, BOB, GROUP, NICE};
use crate::check_eq;
use crate::child::Child;
use crate::common::{errno, level, told_slice_of, tune, Lab, SOON};
use crate::group::Group;
use crate::harness::Outcome;
use crate::list::PERFMON;
use crate::sys;

/// The caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// With every capability.
    Root,
    /// The user that the targets belong to.
    Owner,
    /// Another user.
    Stranger,
    /// A stranger in the group `lc_gid`.
    Member,
    /// A stranger with `CAP_SYS_NICE` alone.
    Nice,
    /// A stranger with `CAP_PERFMON` alone.
    Perfmon,
}

impl Actor {
    fn become_it(self) -> Result<()> {
        match self {
            Self::Root => {}
            Self::Owner => sys::become_user(ALICE, ALICE, &[])?,
            Self::Stranger => sys::become_user(BOB, BOB, &[])?,
            Self::Member => sys::become_user(BOB, BOB, &[GROUP])?,
            Self::Nice => sys::become_user_with(BOB, BOB, NICE)?,
            Self::Perfmon => sys::become_user_with(BOB, BOB, PERFMON)?,
        }
        Ok(())
    }

    fn is_privileged(self) -> bool {
        matches!(self, Self::Root | Self::Member | Self::Nice)
    }
}

/// The request of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Set(u8),
    Weight(u32),
    Slice(u32),
    Clear,
    Get,
}

impl Request {
    /// The attributes that it sets, if any.
    fn sets(self) -> Option<Attributes> {
        match self {
            Self::Set(number) => Some(level(number).into()),
            Self::Weight(weight) => Weight::new(weight).map(Attributes::from),
            Self::Slice(us) => Some(Attributes::default().timeslice_us(us)),
            Self::Clear | Self::Get => None,
        }
    }
}

/// Every call.
const REQUESTS: [Request; 14] = [
    Request::Set(0),
    Request::Set(1),
    Request::Set(2),
    Request::Set(3),
    Request::Set(4),
    Request::Set(5),
    Request::Set(6),
    Request::Set(7),
    Request::Weight(5),
    Request::Weight(2000),
    Request::Slice(60),
    Request::Slice(4_000_000),
    Request::Clear,
    Request::Get,
];

/// The header's rule: `rank` is the number of the level in force before, 6 without one.
fn expected(
    actor: Actor,
    is_tsg: bool,
    is_alices: bool,
    given: Option<u8>,
    request: Request,
) -> Option<Errno> {
    let owner = actor == Actor::Owner && is_alices;
    let rank = given.unwrap_or(6);
    if !owner && !actor.is_privileged() && actor != Actor::Perfmon {
        return Some(if is_tsg { Errno::NOENT } else { Errno::PERM });
    }
    let may_change = owner || actor.is_privileged();
    match request {
        Request::Get => None,
        _ if !may_change => Some(Errno::PERM),
        Request::Set(number) if number >= rank || actor.is_privileged() => None,
        Request::Set(_) => Some(Errno::PERM),
        _ if request.sets().is_some() && actor.is_privileged() => None,
        Request::Weight(weight) => (weight > 1024).then_some(Errno::PERM),
        // Without a class a slice is never more than the driver's own.
        Request::Slice(us) => {
            let most = given.map_or(u32::MAX, told_slice_of);
            (us > most).then_some(Errno::PERM)
        }
        Request::Clear if given.is_none() => Some(Errno::NODATA),
        // Root gave it, so that only privilege takes it away.
        Request::Clear if actor.is_privileged() => None,
        Request::Clear => Some(Errno::PERM),
    }
}

/// Makes every request of every kind of target as `actor`.
pub fn matrix(actor: Actor) -> Outcome {
    let lab = Lab::open()?;
    tune("lc_gid", GROUP)?;
    let owner = owner_process(ALICE)?;
    let tsg = lab.zernel.tsgs().next().context("no TSG")??;
    check_eq!(tsg.uid, ALICE);
    let (delegated, foreign) = (Group::new("delegated")?, Group::new("foreign")?);
    delegated.delegate(ALICE)?;
    let targets = [
        ("TSG", Target::Tsg(tsg.id), true),
        ("thread", Target::Thread(owner.pid()), true),
        ("process", Target::Process(owner.pid()), true),
        ("pidfd", Target::pidfd(owner.pid())?, true),
        ("delegated cgroup", delegated.target()?, true),
        ("root's cgroup", foreign.target()?, false),
    ];
    let puppet = Puppet::new(actor, &targets.each_ref().map(|(_, target, _)| target))?;
    for (index, (name, target, is_alices)) in targets.iter().enumerate() {
        for given in [None, Some(3), Some(6), Some(7)] {
            for (number, request) in REQUESTS.into_iter().enumerate() {
                if let Some(given) = given {
                    lab.zernel.set_class(target, level(given))?;
                }
                let is_tsg = matches!(target, Target::Tsg(_));
                let want = expected(actor, is_tsg, *is_alices, given, request);
                let ask = || puppet.ask(index, number);
                one(&lab, actor, target, request, want, ask)
                    .with_context(|| format!("{request:?} of the {name} with {given:?}"))?;
                // There may be nothing to clear.
                let _ = lab.zernel.clear_class(target);
            }
        }
    }
    Ok(())
}

/// A process that makes requests as an actor.
struct Puppet {
    stream: UnixStream,
    _child: Child,
}

impl Puppet {
    fn new(actor: Actor, targets: &[&Target]) -> Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        stream.set_read_timeout(Some(SOON))?;
        let child = Child::spawn(|| {
            actor.become_it()?;
            let zernel = Zernel::open()?;
            let mut command = [0; 2];
            loop {
                (&theirs).read_exact(&mut command)?;
                let target = targets[usize::from(command[0])];
                let request = REQUESTS[usize::from(command[1])];
                let answer = match (request, request.sets()) {
                    (_, Some(class)) => errno(zernel.set_class(target, class)),
                    (Request::Get, _) => errno(zernel.class(target)),
                    _ => errno(zernel.clear_class(target)),
                };
                let answer = answer.map_or(0, Errno::raw_os_error);
                (&theirs).write_all(&answer.to_ne_bytes())?;
            }
        })?;
        Ok(Self {
            stream,
            _child: child,
        })
    }

    fn ask(&self, target: usize, request: usize) -> Result<Option<Errno>> {
        let command = [u8::try_from(target)?, u8::try_from(request)?];
        (&self.stream).write_all(&command)?;
        let mut answer = [0; 4];
        (&self.stream).read_exact(&mut answer)?;
        let errno = i32::from_ne_bytes(answer);
        Ok((errno != 0).then(|| Errno::from_raw_os_error(errno)))
    }
}

/// Makes one request and looks at the answer and at what it did.
fn one(
    lab: &Lab,
    actor: Actor,
    target: &Target,
    request: Request,
    want: Option<Errno>,
    ask: impl FnOnce() -> Result<Option<Errno>>,
) -> Outcome {
    let before = (lab.zernel.class(target)?, lab.stats()?);
    check_eq!(ask()?, want, "the answer");
    let after = (lab.zernel.class(target)?, lab.stats()?);
    let (mut sets, mut clears) = (0, 0);
    match (request, request.sets(), want) {
        (_, Some(class), None) => {
            let (own, old) = (after.0.own, before.0.own);
            let mut expected = class;
            expected.level = class.level.or(old.level);
            check_eq!(own, expected);
            // A level that a manager allowed there stays allowed when the owner takes less.
            let set = before.0.privileged;
            let privileged = match actor.is_privileged() {
                true => set | class.names(),
                false => set,
            };
            check_eq!(after.0.privileged, privileged);
            sets = 1;
        }
        (Request::Clear, _, None) => {
            check_eq!(after.0.own, Attributes::default());
            check_eq!(after.0.privileged, Set::NONE);
            clears = 1;
        }
        _ => check_eq!(after.0, before.0, "the class"),
    }
    check_eq!(after.1.classes_set, before.1.classes_set + sets);
    check_eq!(after.1.classes_cleared, before.1.classes_cleared + clears);
    let refused = u64::from(want == Some(Errno::PERM));
    check_eq!(after.1.denied, before.1.denied + refused, "calls refused");
    Ok(())
}
