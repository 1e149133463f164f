// SPDX-License-Identifier: GPL-2.0
//! Who may set, clear and ask for the class of what.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::sim::{ContextSpec, Sim};
use libzernel::{Source, Target, Zernel};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, level, tune, wait_until, Lab, SOON};
use crate::group::Group;
use crate::harness::{case, suite, Outcome, Suite};
use crate::list::PERFMON;
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "permit",
    &[
        case("root", || matrix(Actor::Root)),
        case("owner", || matrix(Actor::Owner)),
        case("stranger", || matrix(Actor::Stranger)),
        case("member", || matrix(Actor::Member)),
        case("cap_sys_nice", || matrix(Actor::Nice)),
        case("cap_perfmon", || matrix(Actor::Perfmon)),
        case("lowering_cannot_be_undone", lowering_cannot_be_undone),
        case("no_escape_from_a_later_class", no_escape_from_a_later_class),
        case("held_down_to_the_default", held_down_to_the_default),
        case("membership", membership),
        case("real_and_effective_users", real_and_effective_users),
        case("root_of_a_user_namespace", root_of_a_user_namespace),
    ],
);

/// `CAP_SYS_NICE`.
pub const NICE: u32 = 23;
/// The user whose targets the matrix is about.
pub const ALICE: u32 = 1000;
/// Another user.
pub const BOB: u32 = 1001;
/// The group in `lc_gid`.
pub const GROUP: u32 = 2000;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actor {
    Root,
    /// The user that the targets belong to.
    Owner,
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

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Set(u8),
    Clear,
    Get,
}

/// What the header says: `rank` is the number of the level in force before, 6 without one.
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
        Request::Clear if given.is_none() => Some(Errno::NODATA),
        // Without its own level, the target would rank as level 6.
        Request::Clear if rank <= 6 || actor.is_privileged() => None,
        Request::Clear => Some(Errno::PERM),
    }
}

/// A process of a user, with one TSG, that lives until this is dropped.
pub fn owner_process(uid: u32) -> Result<Child> {
    let lab = Lab::open()?;
    let before = lab.stats()?.tsgs;
    let child = Child::spawn(move || {
        sys::become_user(uid, uid, &[])?;
        let sim = Sim::open()?;
        let _context = sim.create_context(&ContextSpec::compute("owner"))?;
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })?;
    wait_until("the owner has its TSG", || {
        Ok(lab.stats()?.tsgs == before + 1)
    })?;
    Ok(child)
}

fn matrix(actor: Actor) -> Outcome {
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
    let requests: Vec<_> = (0..8)
        .map(Request::Set)
        .chain([Request::Clear, Request::Get])
        .collect();
    let puppet = Puppet::new(actor, &targets.each_ref().map(|(_, target, _)| target))?;
    for (index, (name, target, is_alices)) in targets.iter().enumerate() {
        for given in [None, Some(3), Some(6), Some(7)] {
            for &request in &requests {
                if let Some(given) = given {
                    lab.zernel.set_class(target, level(given))?;
                }
                let is_tsg = matches!(target, Target::Tsg(_));
                let want = expected(actor, is_tsg, *is_alices, given, request);
                let ask = || puppet.ask(index, request);
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
                let answer = match command[1] {
                    8 => errno(zernel.clear_class(target)),
                    9 => errno(zernel.class(target)),
                    number => errno(zernel.set_class(target, level(number))),
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

    fn ask(&self, target: usize, request: Request) -> Result<Option<Errno>> {
        let request = match request {
            Request::Set(number) => number,
            Request::Clear => 8,
            Request::Get => 9,
        };
        (&self.stream).write_all(&[u8::try_from(target)?, request])?;
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
    match (request, want) {
        (Request::Set(number), None) => {
            let own = (Some(level(number)), actor.is_privileged());
            check_eq!((after.0.level, after.0.privileged), own);
            sets = 1;
        }
        (Request::Clear, None) => {
            check_eq!((after.0.level, after.0.privileged), (None, false));
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

fn lowering_cannot_be_undone() -> Outcome {
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let lab = Lab::open()?;
        let (_context, tsg) = lab.compute()?;
        for target in [Target::Tsg(tsg.id), Target::Thread(0), Target::Process(0)] {
            for number in [6, 6, 7, 7] {
                let class = lab.zernel.set_class(&target, level(number))?;
                check_eq!(
                    (class.level, class.privileged),
                    (Some(level(number)), false)
                );
            }
            for number in 0..7 {
                let answer = errno(lab.zernel.set_class(&target, level(number)));
                check_eq!(answer, Some(Errno::PERM), "{target:?} to {number}");
            }
            let answer = errno(lab.zernel.clear_class(&target));
            check_eq!(answer, Some(Errno::PERM), "{target:?} cleared");
        }
        Ok(())
    })
}

fn no_escape_from_a_later_class() -> Outcome {
    let root = Lab::open()?;
    let group = Group::new("later")?;
    let owner = owner_process(ALICE)?;
    group.enter(owner.pid())?;
    let tsg = root.zernel.tsgs().next().context("no TSG")??.id;
    let process = Target::Process(owner.pid());
    let own = [Target::Tsg(tsg), Target::Thread(owner.pid()), process];
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        for target in &own {
            zernel.set_class(target, level(6))?;
        }
        Ok(())
    })?;
    check_eq!(root.tsg(tsg)?.level, Some(level(6)));
    root.zernel.set_class(&group.target()?, level(7))?;
    for target in &own {
        let class = root.zernel.class(target)?;
        check_eq!(
            (class.level, class.effective),
            (Some(level(6)), Some(level(7)))
        );
        check_eq!(class.source, Source::Cgroup, "{target:?}");
    }
    let listed = root.tsg(tsg)?;
    check_eq!(
        (listed.level, listed.source),
        (Some(level(7)), Source::Cgroup)
    );
    // A more urgent class from above does not raise who lowered himself.
    root.zernel.set_class(&group.target()?, level(1))?;
    let listed = root.tsg(tsg)?;
    check_eq!((listed.level, listed.source), (Some(level(6)), Source::Tsg));
    Ok(())
}

/// What a user took from a class that was given to it does not outlive that class.
fn held_down_to_the_default() -> Outcome {
    let root = Lab::open()?;
    let owner = owner_process(ALICE)?;
    let tsg = root.zernel.tsgs().next().context("no TSG")??.id;
    let process = Target::Process(owner.pid());
    let thread = Target::Thread(owner.pid());
    root.zernel.set_class(&process, level(0))?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        let class = zernel.set_class(&thread, level(3))?;
        check_eq!(
            (class.effective, class.source),
            (Some(level(3)), Source::Thread)
        );
        check_eq!(
            errno(zernel.set_class(&thread, level(2))),
            Some(Errno::PERM)
        );
        Ok(())
    })?;
    check_eq!(root.tsg(tsg)?.level, Some(level(3)));
    root.zernel.clear_class(&process)?;
    let class = root.zernel.class(&thread)?;
    check_eq!(
        (class.level, class.effective),
        (Some(level(3)), Some(level(6)))
    );
    let listed = root.tsg(tsg)?;
    check_eq!(
        (listed.level, listed.source),
        (Some(level(6)), Source::Thread)
    );
    Ok(())
}

/// Whether a user with this group and these further groups may raise itself.
fn may_raise(gid: u32, groups: &[u32]) -> Result<bool> {
    let mut allowed = false;
    for (want, is_allowed) in [(None, true), (Some(Errno::PERM), false)] {
        let done = in_child(|| {
            sys::become_user(ALICE, gid, groups)?;
            let answer = errno(Zernel::open()?.set_class(&Target::Process(0), level(0)));
            check_eq!(answer, want);
            Ok(())
        });
        if done.is_ok() {
            allowed = is_allowed;
        } else if !is_allowed {
            // Neither allowed nor EPERM in one of the two tries.
            check_eq!(allowed, true, "an answer of another kind");
        }
    }
    Ok(allowed)
}

fn membership() -> Outcome {
    check_eq!(may_raise(GROUP, &[GROUP])?, false, "lc_gid none");
    tune("lc_gid", GROUP)?;
    check_eq!(may_raise(ALICE, &[])?, false, "no member");
    check_eq!(may_raise(GROUP, &[])?, true, "by its own group");
    check_eq!(
        may_raise(ALICE, &[7, GROUP, 9])?,
        true,
        "by a further group"
    );
    check_eq!(
        may_raise(ALICE, &[GROUP - 1, GROUP + 1])?,
        false,
        "of neighbours"
    );
    tune("lc_gid", GROUP + 1)?;
    check_eq!(may_raise(ALICE, &[GROUP])?, false, "of the group before");
    tune("lc_gid", "none")?;
    check_eq!(
        may_raise(ALICE, &[GROUP, u32::MAX - 1])?,
        false,
        "lc_gid none again"
    );
    Ok(())
}

/// The rule of `sched_setscheduler(2)`: the caller's effective user is the target's real or
/// effective one.
fn real_and_effective_users() -> Outcome {
    for (target, caller, allowed) in [
        ((ALICE, ALICE, ALICE), (ALICE, ALICE, ALICE), true),
        ((ALICE, BOB, BOB), (BOB, BOB, BOB), true),
        ((ALICE, BOB, BOB), (ALICE, ALICE, ALICE), true),
        ((ALICE, ALICE, BOB), (BOB, BOB, BOB), false),
        ((ALICE, ALICE, ALICE), (ALICE, BOB, ALICE), false),
        ((ALICE, ALICE, ALICE), (BOB, ALICE, BOB), true),
        ((ALICE, ALICE, ALICE), (BOB, BOB, ALICE), false),
    ] {
        let process = Child::spawn(|| {
            sys::set_users(target.0, target.1, target.2)?;
            std::thread::sleep(Duration::from_secs(600));
            Ok(())
        })?;
        let uids = format!("Uid:\t{}\t{}\t{}", target.0, target.1, target.2);
        wait_until("the target has its users", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid()))?;
            Ok(status.contains(&uids))
        })?;
        in_child(|| {
            sys::set_users(caller.0, caller.1, caller.2)?;
            let zernel = Zernel::open()?;
            let want = (!allowed).then_some(Errno::PERM);
            for named in [
                Target::Process(process.pid()),
                Target::Thread(process.pid()),
            ] {
                let answers = [
                    errno(zernel.class(&named)),
                    errno(zernel.set_class(&named, level(7))),
                ];
                check_eq!(
                    answers,
                    [want; 2],
                    "{caller:?} asks for {target:?}, {named:?}"
                );
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Capabilities count in the initial user namespace alone.
fn root_of_a_user_namespace() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let owner = owner_process(BOB)?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        sys::unshare(libc::CLONE_NEWUSER)?;
        let lab = Lab::open()?;
        check_eq!(lab.zernel.tsgs().count(), 0);
        let raise = errno(lab.zernel.set_class(&Target::Process(0), level(0)));
        check_eq!(raise, Some(Errno::PERM));
        let other = errno(
            lab.zernel
                .set_class(&Target::Process(owner.pid()), level(7)),
        );
        check_eq!(other, Some(Errno::PERM));
        let unseen = errno(lab.zernel.set_class(&Target::Tsg(tsg.id), level(7)));
        check_eq!(unseen, Some(Errno::NOENT));
        lab.zernel.set_class(&Target::Process(0), level(7))?;
        Ok(())
    })
}
