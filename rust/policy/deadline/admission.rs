// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The admission of a request: does it meet its deadline, and do those that were promised theirs?
//!
//! The test is that of processor demand (Baruah, Rosier, Howell: *Algorithms and complexity concerning the
//! preemptive scheduling of periodic, real-time tasks on one processor*, 1990) with the blocking term of a
//! policy that interrupts nobody (Jeffay, Stanat, Martel, 1991), over the requests that are there. A request
//! *k* ends in time if
//!
//! ```text
//! end(k) + blocking(k) <= deadline(k)
//! end(k) = max(end of the one with the deadline before, due(k)) + demand(k)
//! ```
//!
//! beginning at the time when the GPU is free. `demand` is the switch and the burst, from the trigger.
//! `blocking` is the longest demand of a later deadline, as one of those may be triggered just before *k* is
//! due; it is 0 for a request that is due. The fold is the time of a schedule that leaves the GPU idle
//! for the request with the earliest deadline. The order does not, and is never later: without idling no
//! sequence of the same requests ends later than this one. A shorter burst, or data that is ready earlier,
//! makes no end later.
//!
//! A user's share: while others ask, too, promises to one user fill half of the time to each
//! deadline at most. Requests of others that hold no promise count for half of that time at most, so that
//! nobody has all refused by requests that promise nothing.

use super::HORIZON;
use crate::policy::units::Ns;

/// A request that was not triggered yet, in the order of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Its user.
    pub(crate) user: u32,
    /// The time by which it is to be done.
    pub(crate) deadline: Ns,
    /// The time of its trigger, at the earliest.
    pub(crate) due: Ns,
    /// Its time on the GPU, from its trigger to its end.
    pub(crate) demand: Ns,
    /// It was admitted.
    pub(crate) is_promised: bool,
    /// It is due, and waits.
    pub(crate) waits: bool,
}

/// A request that asks for a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Its user.
    pub(crate) user: u32,
    /// The time by which it wants to be done.
    pub(crate) deadline: Ns,
    /// The time of its trigger, at the earliest.
    pub(crate) due: Ns,
    /// Its time on the GPU, from its trigger to its end.
    pub(crate) demand: Ns,
}

/// The GPU as a request finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// The time.
    pub(crate) at: Ns,
    /// The time from which the GPU is free for its lane.
    pub(crate) free: Ns,
    /// Other users ask, too.
    pub(crate) is_shared: bool,
}

impl Now {
    /// Half of the time to a deadline.
    fn half(&self, deadline: Ns) -> Ns {
        Ns(deadline.saturating_sub(self.at).0 / 2)
    }

    /// The time of which so much is the half.
    fn twice(&self, time: Ns) -> Ns {
        self.at.saturating_add(time).saturating_add(time)
    }
}

/// The demand of the requests up to one of them.
#[derive(Clone, Copy)]
struct Load {
    /// The end of those that count in full.
    end: Ns,
    /// The demand of those that hold no promise, and are another user's.
    open: Ns,
    /// The promised demand of the user that asks.
    own: Ns,
}

impl Load {
    fn add(&mut self, job: &Job, ask: &Ask) {
        let is_own = job.user == ask.user;
        if !job.is_promised && !is_own {
            self.open = self.open.saturating_add(job.demand);
            return;
        }
        self.end = self.end.max(job.due).saturating_add(job.demand);
        if is_own && job.is_promised {
            self.own = self.own.saturating_add(job.demand);
        }
    }

    /// The end, with a part of what is open, by this deadline.
    fn end_by(&self, deadline: Ns, now: &Now) -> Ns {
        self.end.saturating_add(self.open.min(now.half(deadline)))
    }

    /// The earliest deadline by which one behind them ends, where it does at `end` but for what is open.
    fn least(&self, end: Ns, now: &Now) -> Ns {
        let in_full = end.saturating_add(self.open);
        in_full.min(now.twice(end.saturating_sub(now.at)))
    }
}

/// Most requests that are looked at: three times each.
pub(crate) const MOST: usize = 64;

/// Tests a request against those of its lane: `job` has them by number below `count`, in the order of
/// deadlines, without those that do not count. The new one is behind others of its deadline.
///
/// # Errors
///
/// The earliest deadline that would do, or `None` if no later one would within [`HORIZON`]; never one
/// that is not later than asked.
pub(crate) fn test(
    ask: &Ask,
    now: &Now,
    count: usize,
    job: impl Fn(usize) -> Option<Job>,
) -> Result<(), Option<Ns>> {
    let count = count.min(MOST);
    let none = Load {
        end: now.free.max(now.at),
        open: Ns::ZERO,
        own: Ns::ZERO,
    };
    let (blocking, room) = look(ask, now, none, count, &job);
    let mut load = none;
    let mut least = ask.deadline;
    for at in 0..=count {
        let next = match at < count {
            true => match job(at) {
                Some(next) => Some(next),
                None => continue,
            },
            false => None,
        };
        if next.is_none_or(|next| next.deadline > ask.deadline) {
            let end = load.end.max(ask.due).saturating_add(ask.demand);
            let blocked = match ask.due <= now.at {
                true => Ns::ZERO,
                false => blocking.get(at).copied().unwrap_or(Ns::ZERO),
            };
            let mut needed = load.least(end.saturating_add(blocked), now).max(least);
            if now.is_shared {
                needed = needed.max(now.twice(load.own.saturating_add(ask.demand)));
            }
            let left = room.get(at).copied().unwrap_or(Ns(u64::MAX));
            let is_before = next.is_none_or(|next| needed < next.deadline);
            if is_before && end.saturating_sub(load.end) <= left {
                let is_far = needed > now.at.saturating_add(HORIZON);
                return match needed <= ask.deadline {
                    true => Ok(()),
                    false => Err((!is_far).then_some(needed)),
                };
            }
        }
        if let Some(next) = next {
            load.add(&next, ask);
            least = least.max(next.deadline);
            // It may be triggered just before that one is due.
            let before = blocking.get(at + 1).copied().unwrap_or(Ns::ZERO);
            let blocked = load.end_by(next.deadline, now).saturating_add(ask.demand);
            if next.is_promised && !next.waits && ask.demand > before && blocked > next.deadline {
                return Err(None);
            }
        }
    }
    Err(None)
}

/// Of each place: the longest demand from there on, and the time by which the requests there may be
/// later, as far as they were promised anything.
fn look(
    ask: &Ask,
    now: &Now,
    mut load: Load,
    count: usize,
    job: &impl Fn(usize) -> Option<Job>,
) -> ([Ns; MOST], [Ns; MOST]) {
    let mut blocking = [Ns::ZERO; MOST];
    let mut longest = Ns::ZERO;
    for (at, place) in blocking.iter_mut().enumerate().take(count).rev() {
        longest = longest.max(job(at).map_or(Ns::ZERO, |job| job.demand));
        *place = longest;
    }
    let mut room = [Ns(u64::MAX); MOST];
    for (at, place) in room.iter_mut().enumerate().take(count) {
        let Some(job) = job(at) else {
            continue;
        };
        load.add(&job, ask);
        if !job.is_promised {
            continue;
        }
        let blocked = match job.waits {
            true => Ns::ZERO,
            false => blocking.get(at + 1).copied().unwrap_or(Ns::ZERO),
        };
        let end = load.end_by(job.deadline, now).saturating_add(blocked);
        *place = job.deadline.saturating_sub(end);
        if now.is_shared && job.user == ask.user {
            *place = now.half(job.deadline).saturating_sub(load.own).min(*place);
        }
    }
    let mut least = Ns(u64::MAX);
    for place in room.iter_mut().take(count).rev() {
        least = least.min(*place);
        *place = least;
    }
    (blocking, room)
}

/// The users that asked last: two, so that each can tell whether another did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Askers {
    last: Option<(u32, Ns)>,
    other: Option<(u32, Ns)>,
}

impl Askers {
    /// None.
    pub(crate) const NONE: Self = Self {
        last: None,
        other: None,
    };

    /// A user asks. Returns whether another has within [`HORIZON`].
    pub(crate) fn ask(&mut self, user: u32, now: Ns) -> bool {
        match self.last {
            Some((last, _)) if last != user => self.other = self.last,
            _ => {}
        }
        self.last = Some((user, now));
        self.other
            .is_some_and(|(other, at)| other != user && now.saturating_sub(at) <= HORIZON)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_deadline_admission)
)]
mod tests {
    use super::*;

    const IDLE: Now = Now {
        at: Ns(1_000),
        free: Ns::ZERO,
        is_shared: false,
    };
    const ASK: Ask = Ask {
        user: 1,
        deadline: Ns(1_100),
        due: Ns(1_000),
        demand: Ns(60),
    };
    const JOB: Job = Job {
        user: 2,
        deadline: Ns(1_100),
        due: Ns(1_000),
        demand: Ns(60),
        is_promised: true,
        waits: true,
    };

    fn ask<const N: usize>(ask: Ask, now: Now, jobs: [Job; N]) -> Result<(), Option<Ns>> {
        test(&ask, &now, N, |at| jobs.get(at).copied())
    }

    #[test]
    fn a_free_gpu_takes_what_fits() {
        assert_eq!(ask(ASK, IDLE, []), Ok(()));
        let long = Ask {
            demand: Ns(101),
            ..ASK
        };
        assert_eq!(ask(long, IDLE, []), Err(Some(Ns(1_101))));
        let busy = Now {
            free: Ns(1_050),
            ..IDLE
        };
        assert_eq!(ask(ASK, busy, []), Err(Some(Ns(1_110))));
        let late = Ask {
            due: Ns(1_070),
            ..ASK
        };
        assert_eq!(ask(late, IDLE, []), Err(Some(Ns(1_130))));
    }

    #[test]
    fn those_before_and_behind_are_kept() {
        // Of the same deadline the first to come goes first.
        assert_eq!(ask(ASK, IDLE, [JOB]), Err(Some(Ns(1_120))));
        let later = Job {
            deadline: Ns(1_119),
            ..JOB
        };
        // It would be late, and is not made so: behind it.
        assert_eq!(ask(ASK, IDLE, [later]), Err(Some(Ns(1_120))));
        let at_ease = Job {
            deadline: Ns(1_120),
            ..JOB
        };
        assert_eq!(ask(ASK, IDLE, [at_ease]), Ok(()));
        let open = Job {
            is_promised: false,
            ..later
        };
        assert_eq!(ask(ASK, IDLE, [open]), Ok(()));
    }

    #[test]
    fn one_later_deadline_blocks() {
        let soon = Ask {
            due: Ns(1_001),
            demand: Ns(50),
            ..ASK
        };
        let later = Job {
            deadline: Ns(2_000),
            ..JOB
        };
        assert_eq!(ask(soon, IDLE, [later]), Err(Some(Ns(1_111))));
        // And the new one blocks those that are not due.
        let promised = Job {
            deadline: Ns(1_080),
            due: Ns(1_010),
            waits: false,
            ..JOB
        };
        assert_eq!(ask(ASK, IDLE, [promised]), Err(None));
        let waits = Job {
            waits: true,
            ..promised
        };
        let patient = Ask {
            deadline: Ns(1_130),
            ..ASK
        };
        assert_eq!(ask(patient, IDLE, [waits]), Ok(()));
    }

    #[test]
    fn a_user_has_half_beside_others() {
        let shared = Now {
            is_shared: true,
            ..IDLE
        };
        assert_eq!(ask(ASK, shared, []), Err(Some(Ns(1_120))));
        let own = Job {
            user: 1,
            deadline: Ns(1_200),
            ..JOB
        };
        let short = Ask {
            demand: Ns(41),
            ..ASK
        };
        // By the later deadline, too: 60 and 41 are more than half of 200.
        assert_eq!(ask(short, shared, [own]), Err(Some(Ns(1_202))));
        let fits = Ask {
            demand: Ns(40),
            ..ASK
        };
        assert_eq!(ask(fits, shared, [own]), Ok(()));
        assert_eq!(ask(short, IDLE, [own]), Ok(()));
    }

    #[test]
    fn requests_without_a_promise_have_half_refused_at_most() {
        let hostile = Job {
            is_promised: false,
            deadline: Ns(1_001),
            demand: HORIZON,
            ..JOB
        };
        let short = Ask {
            demand: Ns(50),
            ..ASK
        };
        assert_eq!(ask(short, IDLE, [hostile]), Ok(()));
        assert_eq!(ask(ASK, IDLE, [hostile; 3]), Err(Some(Ns(1_120))));
        // One's own count in full.
        let own = Job { user: 1, ..hostile };
        assert_eq!(ask(short, IDLE, [own]), Err(None));
    }

    #[test]
    fn nothing_overflows() {
        let endless = Job {
            deadline: Ns(u64::MAX),
            due: Ns(u64::MAX),
            demand: Ns(u64::MAX),
            waits: false,
            ..JOB
        };
        for demand in [Ns::ZERO, Ns(u64::MAX)] {
            for deadline in [Ns::ZERO, Ns(u64::MAX)] {
                let asked = Ask {
                    deadline,
                    demand,
                    due: Ns(u64::MAX),
                    ..ASK
                };
                let answer = ask(asked, IDLE, [endless; 3]);
                assert!(answer.is_ok() || answer == Err(None));
            }
        }
    }

    #[test]
    fn another_user_is_remembered() {
        let mut askers = Askers::NONE;
        assert!(!askers.ask(1, Ns(0)));
        assert!(!askers.ask(1, Ns(1)));
        assert!(askers.ask(2, Ns(2)));
        assert!(askers.ask(1, Ns(3)));
        assert!(askers.ask(1, Ns(HORIZON.0)));
        assert!(!askers.ask(1, Ns(HORIZON.0 + 3)));
        assert!(askers.ask(2, Ns(HORIZON.0 + 4)));
    }
}
