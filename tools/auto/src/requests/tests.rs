// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rounds are kept, found and ended.

use super::*;
use std::time::{Duration, Instant};

use crate::sites::Sites;
use crate::verdict::Part;
use zernel_runtime::{Mode, Options, Runtime, Spec};

static SITES: Sites = Sites::new();

/// One that does nothing: the bookkeeping is the same.
fn underway() -> Underway {
    let runtime = Runtime::attach(&Options::default().mode(Mode::Off)).unwrap();
    Underway {
        request: Some(runtime.begin(&Spec::new()).unwrap()),
        site: SITES.find(1),
        part: Part::UNJUDGED,
        begun: Instant::now(),
        cost: Duration::ZERO,
        outcome: None,
        has_work: false,
    }
}

fn launch(requests: &Requests, ticket: Ticket, stream: u64) -> bool {
    requests.launching(ticket, stream) && requests.ready(ticket)
}

#[test]
fn a_ticket_is_of_one_request() {
    let requests = Requests::new();
    let first = requests.put(underway(), 1).unwrap();
    assert!(requests.is_live(first) && requests.has_begun());
    assert!(launch(&requests, first, 7));
    assert!(!requests.has_begun() && requests.has_launched());
    requests.end(first, End::Done);
    assert!(!requests.is_live(first) && !requests.has_launched());
    let second = requests.put(underway(), 1).unwrap();
    assert_ne!(first, second);
    requests.end(first, End::Done);
    assert!(!launch(&requests, first, 7));
    assert!(requests.is_live(second));
    assert!(!requests.is_live(Ticket::NONE));
}

#[test]
fn there_is_room_for_so_many() {
    let requests = Requests::new();
    let all: Vec<_> = (0..SIZE).map(|_| requests.put(underway(), 1)).collect();
    assert!(all.iter().all(Option::is_some));
    assert!(requests.put(underway(), 1).is_none());
    requests.end(all[17].unwrap(), End::Cancelled);
    let again = requests.put(underway(), 1).unwrap();
    assert_eq!(again.place, 17);
}

#[test]
fn other_threads_end_what_they_have_waited_for() {
    let requests = Requests::new();
    let put = |context, stream| {
        let ticket = requests.put(underway(), context).unwrap();
        assert!(launch(&requests, ticket, stream));
        ticket
    };
    let [one, two, other] = [put(1, 10), put(1, 11), put(2, 10)];
    requests.recorded(two, 100, 11);
    requests.recorded(two, 101, 10);
    assert!(requests.has_event(two, 100) && !requests.has_event(two, 101));
    let live = || [one, two, other].map(|ticket| requests.is_live(ticket));
    requests.stream_is_idle(1, 12);
    requests.event_has_passed(101);
    assert_eq!(live(), [true, true, true]);
    requests.stream_is_idle(1, 10);
    assert_eq!(live(), [false, true, true]);
    requests.event_has_passed(100);
    assert_eq!(live(), [false, false, true]);
    requests.context_is_idle(1);
    assert_eq!(live(), [false, false, true]);
    requests.context_is_idle(2);
    assert_eq!(live(), [false; 3]);
}

#[test]
fn one_that_is_offered_is_adopted_once() {
    let requests = Requests::new();
    let [first, second] = [1, 2].map(|context| requests.put(underway(), context).unwrap());
    assert!(!requests.has_offered());
    requests.offer(first);
    requests.offer(second);
    assert_eq!(requests.adopt(1), Some(first));
    assert_eq!(requests.adopt(1), None);
    requests.end(second, End::Cancelled);
    requests.offer(second);
    assert!(!requests.has_offered());
    assert_eq!(requests.adopt(2), None);
    assert!(launch(&requests, first, 0));
}

#[test]
fn one_that_nobody_launches_is_given_up() {
    let requests = Requests::new();
    // For comparison, and begun long ago.
    let old = || Underway {
        request: None,
        begun: Instant::now() - Duration::from_secs(1),
        ..underway()
    };
    let [own, offered, other] = [1, 1, 2].map(|context| requests.put(old(), context).unwrap());
    let fresh = requests
        .put(
            Underway {
                request: None,
                ..underway()
            },
            1,
        )
        .unwrap();
    requests.offer(offered);
    requests.offer(other);
    requests.offer(fresh);
    assert_eq!(requests.adopt(1), Some(fresh));
    assert!(!requests.is_live(offered));
    // That of a thread goes on, as does one of another context.
    assert!(requests.is_live(own) && requests.is_live(other));
    assert!(requests.has_room(1));
    let all: Vec<_> = (3..SIZE).map(|_| requests.put(old(), 1).unwrap()).collect();
    assert!(!requests.has_room(1));
    all.iter().for_each(|&ticket| requests.offer(ticket));
    assert!(!requests.has_room(3) && requests.has_room(1));
    assert!(!all.iter().any(|&ticket| requests.is_live(ticket)));
}

#[test]
fn one_whose_lease_is_over_goes_on_without_its_request() {
    let requests = Requests::new();
    let ticket = requests.put(underway(), 1).unwrap();
    requests.expire(ticket);
    assert!(requests.is_live(ticket) && !requests.is_expired(ticket));
    assert!(launch(&requests, ticket, 7));
    let outcome = requests.look_at(ticket, |_, underway| {
        assert_eq!(underway.outcome, Some(crate::verdict::Outcome::Expired));
    });
    assert!(outcome);
    requests.end(ticket, End::Done);
    assert!(!requests.is_live(ticket));
}

#[test]
fn those_without_work_are_given_up_alone() {
    let requests = Requests::new();
    let begun = requests.put(underway(), 1).unwrap();
    let other = requests.put(underway(), 2).unwrap();
    let launched = requests.put(underway(), 1).unwrap();
    assert!(launch(&requests, launched, 0));
    requests.end_begun(1, End::Cancelled);
    assert!(!requests.is_live(begun));
    assert!(requests.is_live(launched) && requests.is_live(other));
    requests.drop_all(1);
    assert!(!requests.is_live(launched) && requests.is_live(other));
}
