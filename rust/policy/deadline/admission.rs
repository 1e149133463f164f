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
//! The time before a request is due is free for others: those before it are to be over by then, and no
//! earlier. One that would be in the way of a promised one before it at its own deadline gets a place as if
//! its deadline were earlier, if there is one.
//!
//! A user's share: promises to each of *n* users that ask fill a part of *1 / n* of the time to each deadline
//! at most. Requests of others that hold no promise count for half of that time at most, so that nobody has
//! all refused by requests that promise nothing.

use super::{
    load::Load,
    HORIZON, //
};
use crate::policy::units::Ns;

pub(crate) use super::load::{Ask, Job, Now};

/// Most requests that are looked at: three times each.
pub(crate) const MOST: usize = 64;

/// No demand counts for longer, so that the sum of all is exact: 4 years.
const LONGEST: Ns = Ns(1 << 57);

/// Tests a request against those of its lane: `job` has them by number below `count`, in the order of
/// deadlines, without those that do not count. The new one is behind others of its deadline.
///
/// Returns the deadline that gives it its place in the order: its own, or an earlier one where it would
/// be in the way of others at its own.
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
) -> Result<Ns, Option<Ns>> {
    let count = count.min(MOST);
    let job = |at| {
        job(at).map(|job| Job {
            demand: job.demand.min(LONGEST),
            ..job
        })
    };
    let none = Load {
        end: now.free.max(now.at),
        open: Ns::ZERO,
        own: Ns::ZERO,
    };
    let mut spots = [Spot::LAST; MOST];
    look(ask, now, none, count, &job, &mut spots);
    let spot = |at: usize| spots.get(at).copied().unwrap_or(Spot::LAST);
    let mut load = none;
    let mut behind = Ns::ZERO;
    let mut earlier = None;
    for at in 0..=count {
        let next = match at < count {
            true => match job(at) {
                Some(next) => Some(next),
                None => continue,
            },
            false => None,
        };
        let here = spot(at);
        let end = load.end.max(ask.due).saturating_add(ask.demand);
        let blocked = match ask.due <= now.at {
            true => Ns::ZERO,
            false => here.blocking,
        };
        let mut needed = load.least(end.saturating_add(blocked), now).max(behind);
        if now.users > 1 {
            needed = needed.max(now.shared(load.own.saturating_add(ask.demand)));
        }
        let fits = |needed: Ns| {
            let is_before = next.is_none_or(|next| needed < next.deadline);
            is_before && end <= here.latest && ask.demand <= here.share
        };
        match next.is_none_or(|next| next.deadline > ask.deadline) {
            false if fits(needed) => earlier = Some(needed),
            false => {}
            true => {
                let needed = needed.max(ask.deadline);
                if needed == ask.deadline && fits(needed) {
                    return Ok(needed);
                }
                if let Some(earlier) = earlier {
                    return Ok(earlier);
                }
                if fits(needed) {
                    let is_far = needed > now.at.saturating_add(HORIZON);
                    return Err((!is_far).then_some(needed));
                }
            }
        }
        if let Some(next) = next {
            load.add(&next, ask);
            behind = behind.max(next.deadline);
            // It may be triggered just before that one is due.
            let blocked = load.end_by(next.deadline, now).saturating_add(ask.demand);
            let is_longest = ask.demand > spot(at + 1).blocking;
            if next.is_promised && !next.waits && is_longest && blocked > next.deadline {
                return earlier.ok_or(None);
            }
        }
    }
    Err(None)
}

/// A place in the order, before a request or behind all.
#[derive(Clone, Copy)]
struct Spot {
    /// The longest demand from there on.
    blocking: Ns,
    /// The time by which those before are to be over, so that those from there on are in time, as far as
    /// they were promised anything.
    latest: Ns,
    /// The demand that the share of the user has room for, for its promises from there on.
    share: Ns,
}

impl Spot {
    /// Behind all.
    const LAST: Self = Self {
        blocking: Ns::ZERO,
        latest: Ns(u64::MAX),
        share: Ns(u64::MAX),
    };
}

/// Fills in all places, from the last one on. The time in which the GPU is idle before a request is due
/// makes that one no later. The places are written where they lie: two copies are much for a kernel's stack.
fn look(
    ask: &Ask,
    now: &Now,
    mut load: Load,
    count: usize,
    job: &impl Fn(usize) -> Option<Job>,
    spots: &mut [Spot; MOST],
) {
    for job in (0..count).filter_map(job) {
        load.add(&job, ask);
    }
    let mut spot = Spot::LAST;
    for (at, place) in spots.iter_mut().enumerate().take(count).rev() {
        if let Some(job) = job(at) {
            if job.is_promised {
                let blocked = match job.waits {
                    true => Ns::ZERO,
                    false => spot.blocking,
                };
                let open = load.open.min(now.half(job.deadline));
                let latest = job.deadline.saturating_sub(open.saturating_add(blocked));
                spot.latest = spot.latest.min(latest);
            }
            if now.users > 1 && job.is_own(ask) {
                let left = now.share(job.deadline).saturating_sub(load.own);
                spot.share = spot.share.min(left);
            }
            if !job.is_open(ask) && spot.latest != Spot::LAST.latest {
                spot.latest = spot.latest.saturating_sub(job.demand).max(job.due);
            }
            spot.blocking = spot.blocking.max(job.demand);
            load.take(&job, ask);
        }
        *place = spot;
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
        users: 1,
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
        test(&ask, &now, N, |at| jobs.get(at).copied()).map(drop)
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

    /// A request that is due later, with no time to spare.
    const TIGHT: Job = Job {
        deadline: Ns(9_060),
        due: Ns(9_000),
        waits: false,
        ..JOB
    };

    #[test]
    fn the_time_before_one_is_due_is_free() {
        // As promised, and not one more.
        assert_eq!(ask(ASK, IDLE, [TIGHT]), Ok(()));
        let long = Ask {
            deadline: Ns(9_059),
            demand: Ns(8_000),
            ..ASK
        };
        assert_eq!(ask(long, IDLE, [TIGHT]), Ok(()));
        let longer = Ask {
            demand: Ns(8_001),
            ..long
        };
        assert_eq!(ask(longer, IDLE, [TIGHT]), Err(None));
        // One between has that time, too.
        let between = Job {
            deadline: Ns(5_000),
            demand: Ns(7_000),
            due: Ns(1_500),
            is_promised: false,
            user: 1,
            ..JOB
        };
        let short = Ask {
            demand: Ns(1_000),
            deadline: Ns(4_000),
            ..ASK
        };
        assert_eq!(ask(short, IDLE, [between, TIGHT]), Ok(()));
        let late = Ask {
            demand: Ns(1_001),
            ..short
        };
        assert_eq!(ask(late, IDLE, [between, TIGHT]), Err(None));
    }

    #[test]
    fn one_that_is_in_the_way_goes_before() {
        let patient = Ask {
            deadline: Ns(20_000),
            demand: Ns(100),
            ..ASK
        };
        let place = |jobs: [Job; 1]| test(&patient, &IDLE, 1, |at| jobs.get(at).copied());
        assert_eq!(place([TIGHT]), Ok(Ns(1_100)));
        // Where it is in nobody's way it has its own.
        let waits = Job {
            waits: true,
            ..TIGHT
        };
        assert_eq!(place([waits]), Ok(Ns(20_000)));
        let at_ease = Job {
            deadline: Ns(9_160),
            ..TIGHT
        };
        assert_eq!(place([at_ease]), Ok(Ns(20_000)));
        // There is no such place.
        let soon = Job {
            due: Ns(1_050),
            deadline: Ns(1_140),
            ..TIGHT
        };
        assert_eq!(place([soon]), Err(None));
    }

    #[test]
    fn a_user_has_its_share_beside_others() {
        let shared = Now { users: 2, ..IDLE };
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
        let third = Now { users: 3, ..IDLE };
        assert_eq!(ask(fits, third, []), Err(Some(Ns(1_120))));
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
}
