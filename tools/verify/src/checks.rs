// SPDX-License-Identifier: MIT OR Apache-2.0
//! All checks, in the order in which they run.

mod clock;
mod disable;
mod doorbell;
mod engine;
mod holder;
mod interleave;
mod latency;
mod records;
mod registers;
mod restart;
mod slice;
mod stage;
mod user;

use crate::check::Check;

/// All of them. Together they take ten minutes at most.
pub const CHECKS: [Check; 13] = [
    clock::CHECK,
    registers::CHECK,
    engine::CHECK,
    slice::CHECK,
    interleave::CHECK,
    user::CHECK,
    disable::PREEMPT,
    disable::CHECK,
    doorbell::CHECK,
    restart::CHECK,
    holder::CHECK,
    latency::CHECK,
    records::CHECK,
];

/// Longest time of all checks together, in seconds.
pub const MOST_SECONDS: u64 = 600;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_of_them_take_ten_minutes_at_most() {
        let seconds: u64 = CHECKS.iter().map(|check| check.seconds).sum();
        // With the time in which one that hangs is ended, and that of the start.
        assert!(seconds + 30 <= MOST_SECONDS, "{seconds} s");
    }

    #[test]
    fn names_and_questions_are_of_one_kind() {
        let names: BTreeSet<_> = CHECKS.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), CHECKS.len());
        for check in &CHECKS {
            assert!(check.name.bytes().all(|byte| byte.is_ascii_lowercase()));
            assert!(check.asks.ends_with('?'), "{}", check.asks);
            assert!(check.asks.len() <= 78, "{}", check.asks);
        }
    }
}
