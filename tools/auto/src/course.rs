// SPDX-License-Identifier: MIT OR Apache-2.0
//! The course of a thread's calls: copy, launch, synchronisation.

/// Copies without the call that is due next, after which a thread starts anew.
pub const MOST_COPIES: u8 = 64;
/// Synchronisations without a launch, after which a request is given up.
pub const MOST_WAITS: u8 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The next copy begins a request.
    Armed,
    /// A request has begun, and no work was launched.
    Begun,
    /// Its work was launched.
    Launched,
    /// No request was begun where one could have.
    LeftOut,
}

/// The place of a thread in its course.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    stage: Stage,
    /// Copies since then that moved it no further.
    copies: u8,
    /// Synchronisations, likewise.
    waits: u8,
}

/// The step that a call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// None.
    Nothing,
    /// A request may begin.
    Begin,
    /// The request is over.
    Done,
    /// The request is given up.
    Cancel,
}

impl Course {
    /// Of a thread that has made no call.
    pub const NEW: Self = Self::at(Stage::Armed);

    const fn at(stage: Stage) -> Self {
        Self {
            stage,
            copies: 0,
            waits: 0,
        }
    }

    /// True if the next launch makes a request ready.
    pub fn is_begun(self) -> bool {
        self.stage == Stage::Begun
    }

    /// True if work of a request is under way.
    pub fn is_launched(self) -> bool {
        self.stage == Stage::Launched
    }

    /// A request has begun, or none has.
    pub fn began(&mut self, has: bool) {
        *self = Self::at(if has { Stage::Begun } else { Stage::LeftOut });
    }

    /// A copy to a device. For a thread whose synchronisations are not seen, one of many counts as
    /// the end of the request before it.
    pub fn copy(&mut self) -> Step {
        let step = match self.stage {
            Stage::Armed => return Step::Begin,
            Stage::Begun => Step::Cancel,
            Stage::Launched => Step::Done,
            Stage::LeftOut => Step::Nothing,
        };
        self.copies += 1;
        if self.copies < MOST_COPIES {
            return Step::Nothing;
        }
        *self = Self::NEW;
        step
    }

    /// Work is launched.
    pub fn launch(&mut self) {
        if self.is_begun() {
            *self = Self::at(Stage::Launched);
        }
    }

    /// The thread has waited for work of the device.
    pub fn synchronize(&mut self) -> Step {
        let step = match self.stage {
            Stage::Armed | Stage::LeftOut => Step::Nothing,
            Stage::Begun => Step::Cancel,
            Stage::Launched => Step::Done,
        };
        // Data of several copies is often waited for in between.
        if step == Step::Cancel {
            self.waits += 1;
            if self.waits < MOST_WAITS {
                return Step::Nothing;
            }
        }
        *self = Self::NEW;
        step
    }

    /// The request was ended by another thread.
    pub fn ended(&mut self) {
        *self = Self::NEW;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Course {
        let mut course = Course::NEW;
        assert_eq!(course.copy(), Step::Begin);
        course.began(true);
        course
    }

    #[test]
    fn a_request_goes_from_copy_to_synchronisation() {
        let mut course = begun();
        assert_eq!(course.copy(), Step::Nothing);
        assert!(course.is_begun());
        course.launch();
        assert!(course.is_launched() && !course.is_begun());
        course.launch();
        assert!(course.is_launched());
        assert_eq!(course.copy(), Step::Nothing);
        assert_eq!(course.synchronize(), Step::Done);
        assert_eq!(course.synchronize(), Step::Nothing);
        course.launch();
        assert_eq!(course, Course::NEW);
        assert_eq!(course.copy(), Step::Begin);
    }

    #[test]
    fn one_that_was_left_out_leaves_out_all_until_a_synchronisation() {
        let mut course = Course::NEW;
        course.began(false);
        assert_eq!(course.copy(), Step::Nothing);
        course.launch();
        assert!(!course.is_launched() && !course.is_begun());
        assert_eq!(course.synchronize(), Step::Nothing);
        assert_eq!(course.copy(), Step::Begin);
    }

    #[test]
    fn waits_before_a_launch_are_borne_for_a_while() {
        let mut course = begun();
        for _ in 1..MOST_WAITS {
            assert_eq!(course.synchronize(), Step::Nothing);
        }
        assert_eq!(course.synchronize(), Step::Cancel);
        assert_eq!(course, Course::NEW);
    }

    #[test]
    fn copies_are_no_waits() {
        let mut course = begun();
        for _ in 0..MOST_WAITS {
            assert_eq!(course.copy(), Step::Nothing);
        }
        assert_eq!(course.synchronize(), Step::Nothing);
        course.launch();
        assert!(course.is_launched());
    }

    #[test]
    fn many_copies_start_anew() {
        let mut launched = begun();
        launched.launch();
        let mut left_out = Course::NEW;
        left_out.began(false);
        for (mut course, last) in [
            (begun(), Step::Cancel),
            (launched, Step::Done),
            (left_out, Step::Nothing),
        ] {
            for _ in 1..MOST_COPIES {
                assert_eq!(course.copy(), Step::Nothing);
            }
            assert_eq!(course.copy(), last);
            assert_eq!(course.copy(), Step::Begin);
        }
    }
}
