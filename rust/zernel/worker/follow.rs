// SPDX-License-Identifier: GPL-2.0
//! TSGs that follow a change of the levels of a GPU, some at a time.

use crate::policy::level;
use crate::registry::{
    self,
    plan::Throttle, //
};

/// TSGs that are brought in line in a step.
const AT_ONCE: usize = 8;

/// Those that are still to follow the last change.
pub(super) struct Followers(Option<Throttle>);

impl Followers {
    /// None.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// True if all have followed.
    pub(super) fn are_none(&self) -> bool {
        self.0.is_none()
    }

    /// All are to follow a change, those of the change before that have not yet included.
    pub(super) fn change(&mut self, changed: Option<Throttle>) {
        let levels = self.0.map_or(level::Set::NONE, |before| before.levels);
        self.0 = changed.map(|changed| Throttle {
            levels: changed.levels.union(levels),
            ..changed
        });
    }

    /// Brings some in line.
    pub(super) fn step(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(throttle) = self.0.take() else {
                return;
            };
            // Without a registry there are none.
            self.0 = registry::with(|r| r.follow_throttle(throttle)).unwrap_or(None);
        }
    }
}
