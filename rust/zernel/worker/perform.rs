// SPDX-License-Identifier: GPL-2.0
//! A step: the calls that bring the driver's settings of a TSG in line.

use crate::{
    glue::provider::Ops,
    registry::{
        gpu,
        step::{
            Outcome,
            Step, //
        },
        tsg::Hardware, //
    },
};
use kernel::prelude::*;

/// The calls of a step; a trait so that tests can be the driver.
pub(crate) trait Driver {
    /// Reads the driver's settings.
    fn get(&self, tsg: u64) -> Result<Hardware>;
    /// Sets the time slice.
    fn set_timeslice(&self, tsg: u64, hardware: Hardware) -> Result;
    /// Sets the interleave level.
    fn set_interleave(&self, tsg: u64, level: u32) -> Result;
    /// Lets the TSG be scheduled, or not.
    fn set_enabled(&self, tsg: u64, enabled: bool) -> Result;
}

/// The driver behind a provider, for one GPU.
pub(crate) struct Real<'a> {
    /// Its operations.
    pub(crate) ops: &'a Ops,
    /// The GPU.
    pub(crate) gpu: gpu::Handle,
}

impl Driver for Real<'_> {
    fn get(&self, tsg: u64) -> Result<Hardware> {
        self.ops.get(self.gpu, tsg)
    }

    fn set_timeslice(&self, tsg: u64, hardware: Hardware) -> Result {
        self.ops.set_timeslice(self.gpu, tsg, hardware.timeslice)
    }

    fn set_interleave(&self, tsg: u64, level: u32) -> Result {
        self.ops.set_interleave(self.gpu, tsg, level)
    }

    fn set_enabled(&self, tsg: u64, enabled: bool) -> Result {
        self.ops.set_enabled(self.gpu, tsg, enabled)
    }
}

impl Outcome {
    /// Passes on the answer of a call. A failed call may have had its effect all the same, unless
    /// its error says otherwise: the driver's settings are unknown then.
    fn judge(&mut self, result: Result) -> Result {
        if !matches!(result, Ok(()) | Err(EAGAIN | EBUSY | ENOENT | EINVAL)) {
            self.sure = false;
        }
        result
    }
}

impl Step {
    /// Does it. The driver's settings are read before the first change, and again after a restore
    /// in between: the owner may have changed them.
    pub(crate) fn perform(&self, driver: &impl Driver) -> Outcome {
        let mut outcome = Outcome {
            original: self.original,
            current: self.current,
            sure: self.sure,
            managed: self.managed,
            touched: false,
            disabled: self.disabled,
            result: Ok(()),
        };
        outcome.result = self.try_perform(driver, &mut outcome);
        outcome
    }

    fn try_perform(&self, driver: &impl Driver, outcome: &mut Outcome) -> Result {
        if self.disable {
            Self::switch(self.handle, driver, outcome, true)?;
            return self.apply(driver, outcome);
        }
        // A TSG that is enabled again runs with its new settings, or with the old ones if those
        // failed.
        let applied = self.apply(driver, outcome);
        let switched = Self::switch(self.handle, driver, outcome, false);
        applied.and(switched)
    }

    fn switch(tsg: u64, driver: &impl Driver, outcome: &mut Outcome, disable: bool) -> Result {
        if outcome.disabled == Some(disable) {
            return Ok(());
        }
        let result = driver.set_enabled(tsg, !disable);
        outcome.disabled = match result {
            Ok(()) => Some(disable),
            // These keep the driver's settings.
            Err(EAGAIN | EBUSY | ENOENT | EINVAL) => outcome.disabled,
            Err(_) => None,
        };
        result
    }

    fn apply(&self, driver: &impl Driver, outcome: &mut Outcome) -> Result {
        if !self.managed {
            let held = driver.get(self.handle)?;
            outcome.original = Some(held);
            outcome.current = Some(held);
            outcome.sure = true;
        }
        let (Some(original), Some(mut held)) = (outcome.original, outcome.current) else {
            return Ok(());
        };
        let goal = self.want.map_or(original, |want| want.over(original));
        // Even if a call below fails half-way, its effect is undone later.
        outcome.managed = true;
        let all = !outcome.sure;
        if all || held.timeslice != goal.timeslice {
            let result = driver.set_timeslice(self.handle, goal);
            outcome.judge(result)?;
            held.timeslice = goal.timeslice;
            outcome.current = Some(held);
            outcome.touched = true;
        }
        if let Some(level) = goal
            .interleave
            .filter(|_| all || held.interleave != goal.interleave)
        {
            let result = driver.set_interleave(self.handle, level);
            outcome.judge(result)?;
            outcome.current = Some(goal);
            outcome.touched = true;
        }
        outcome.sure = true;
        outcome.managed = self.want.is_some();
        Ok(())
    }
}
