// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tenant's own controls that have its TSGs scheduled, or not, or sooner.

use std::os::fd::AsFd as _;

use anyhow::{Context as _, Result};
use bytemuck::{bytes_of_mut, Zeroable as _};
use libzernel::request::{Begin, Slots};
use libzernel::{Level, Target, Zernel};
use testkit::child::in_child;
use testkit::harness::{case, Outcome, Suite};
use testkit::{check_eq, sys, wait_until};

use crate::lab::{agree, tune, wait_slice, Lab, LOADED};
use crate::rm::abi::{class, control, engine, ChannelParams, DisableChannels};
use crate::rm::runtime::Spec;
use crate::rm::{status_of, truth, ControlFile, Handle, Runtime, Status};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.schedule",
    &[
        case("denied_while_classed", denied_while_classed),
        case("reapplied_if_tuned", reapplied_if_tuned),
        case("allowed_if_tuned", allowed_if_tuned),
        case("unclassed_is_its_owner_s", unclassed_is_its_owner_s),
        case("every_client_of_the_file_counts", every_client_counts),
        case("programs_start_as_ever", programs_start_as_ever),
        case("kept_off_for_a_request", kept_off_for_a_request),
        case("a_bare_channel_is_its_owner_s", bare_channel),
    ],
    LOADED,
);

/// A TSG with two channels.
struct Work {
    runtime: Runtime,
    tsg: Handle,
    channels: [Handle; 2],
    /// Restarts of the run list before.
    restarts: u32,
}

/// A control that changes the scheduling of a TSG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Enable,
    Disable,
    Stop,
    Restart,
}

impl Act {
    const ALL: [Self; 4] = [Self::Enable, Self::Disable, Self::Stop, Self::Restart];
}

impl Work {
    fn new(runtime: Runtime) -> Result<Self> {
        let tsg = runtime.compute()?;
        let channels = [runtime.channel(tsg)?, runtime.channel(tsg)?];
        Ok(Self {
            runtime,
            tsg,
            channels,
            restarts: 0,
        })
    }

    /// One of this level, that has its settings.
    fn classed(lab: &Lab, level: Level, slice_us: u64) -> Result<Self> {
        let mut work = Self::new(Runtime::open()?)?;
        lab.class(&work.runtime, work.tsg, level)?;
        wait_slice(&work.runtime, work.tsg, slice_us)?;
        lab.quiet()?;
        // One that is raised is served at once, a moment later.
        let raised = u32::from(level == Level::LC);
        wait_until("it is served", || Ok(work.state()?.1 == raised))?;
        work.restarts = raised;
        Ok(work)
    }

    /// Has all its channels run, or not.
    fn switch(&self, disable: bool) -> Result<Status> {
        let subdevice = self.runtime.subdevice.context("no subdevice")?;
        switch(
            &self.runtime.file,
            self.runtime.client,
            subdevice,
            self,
            disable,
        )
    }

    fn act(&self, act: Act) -> Result<Status> {
        let [channel, _] = self.channels;
        match act {
            Act::Enable => self.switch(false),
            Act::Disable => self.switch(true),
            Act::Stop => status_of(
                self.runtime
                    .control(channel, control::STOP_CHANNEL, &mut 1u8),
            ),
            Act::Restart => {
                let restart = control::RESTART_RUNLIST;
                status_of(self.runtime.control(channel, restart, &mut [1u8, 1]))
            }
        }
    }

    /// Begins as programs do: its TSG, then a channel by each of its numbers.
    fn start(&self) -> Result<()> {
        let [first, second] = self.channels;
        for (object, cmd) in [
            (self.tsg, control::SCHEDULE),
            (first, control::CHANNEL_SCHEDULE),
            (second, control::CHANNEL_SCHEDULE_VOLTA),
        ] {
            self.runtime.control(object, cmd, &mut [1u8, 0, 0])?;
        }
        Ok(())
    }

    /// Disabled channels, and restarts of the run list.
    fn state(&self) -> Result<(u32, u32)> {
        let tsg = truth::tsg(self.runtime.client, self.tsg)?;
        Ok((tsg.disabled, tsg.restarts - self.restarts))
    }

    fn wait_disabled(&self, count: u32) -> Outcome {
        wait_until(&format!("{count} channels are disabled"), || {
            Ok(self.state()?.0 == count)
        })
    }
}

/// Has the channels of `work` run, or not, by a control of this subdevice.
fn switch(
    file: &ControlFile,
    client: Handle,
    subdevice: Handle,
    work: &Work,
    disable: bool,
) -> Result<Status> {
    let mut params = DisableChannels {
        disable: disable.into(),
        count: work.channels.len() as u32,
        ..DisableChannels::default()
    };
    for (at, channel) in work.channels.iter().enumerate() {
        params.clients[at] = work.runtime.client.0;
        params.channels[at] = channel.0;
    }
    status_of(file.control(client, subdevice, control::DISABLE_CHANNELS, 0, &mut params))
}

/// Attempts that were refused, and those that were put right.
fn counters(lab: &Lab) -> Result<(u64, u64)> {
    let stats = lab.stats()?;
    Ok((stats.controls_denied, stats.controls_reapplied))
}

fn denied_while_classed() -> Outcome {
    let lab = Lab::open()?;
    for (level, slice_us) in [(Level::BE, 200), (Level::LC, 5_000_000)] {
        let work = Work::classed(&lab, level, slice_us)?;
        let before = counters(&lab)?;
        for act in Act::ALL {
            let status = work.act(act)?;
            check_eq!(status, Status::INSUFFICIENT_PERMISSIONS, "{act:?}");
        }
        check_eq!(counters(&lab)?, (before.0 + 4, before.1));
        check_eq!(work.state()?, (0, 0));
    }
    // Also of one whose class comes from its process, without privilege.
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        let lab = Lab::open()?;
        let work = Work::new(Runtime::open()?)?;
        lab.zernel
            .set_class(&Target::current_process(), Level::BE)?;
        for act in Act::ALL {
            let status = work.act(act)?;
            check_eq!(status, Status::INSUFFICIENT_PERMISSIONS, "{act:?}");
        }
        Ok(())
    })
}

fn reapplied_if_tuned() -> Outcome {
    tune("user_control", "reapply")?;
    let lab = Lab::open()?;
    let work = Work::classed(&lab, Level::LC, 5_000_000)?;
    let before = counters(&lab)?;
    for (counted, act) in (1..).zip(Act::ALL) {
        check_eq!(work.act(act)?, Status::OK, "{act:?}");
        check_eq!(counters(&lab)?, (before.0, before.1 + counted), "{act:?}");
    }
    lab.quiet()?;
    // Without turns, and without a request, it is nobody's loss but its own.
    check_eq!(work.state()?, (2, 1));
    Ok(())
}

fn allowed_if_tuned() -> Outcome {
    tune("user_control", "allow")?;
    let lab = Lab::open()?;
    let work = Work::classed(&lab, Level::LC, 5_000_000)?;
    acts_freely(&lab, &work)
}

fn unclassed_is_its_owner_s() -> Outcome {
    let lab = Lab::open()?;
    let work = Work::new(Runtime::open()?)?;
    acts_freely(&lab, &work)?;
    // The driver's own check is as ever.
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        let work = Work::new(Runtime::open()?)?;
        for act in Act::ALL {
            let expected = match act {
                Act::Restart => Status::INSUFFICIENT_PERMISSIONS,
                _ => Status::OK,
            };
            check_eq!(work.act(act)?, expected, "{act:?}");
        }
        Ok(())
    })
}

fn acts_freely(lab: &Lab, work: &Work) -> Outcome {
    let before = counters(lab)?;
    let calls = truth::kernel_calls(control::DISABLE_CHANNELS)?;
    for act in Act::ALL {
        check_eq!(work.act(act)?, Status::OK, "{act:?}");
    }
    lab.quiet()?;
    check_eq!(work.state()?, (2, 1));
    check_eq!(counters(lab)?, before);
    check_eq!(truth::kernel_calls(control::DISABLE_CHANNELS)?, calls);
    Ok(())
}

/// The channels are named with their clients, so a classed TSG in any client of the file counts.
fn every_client_counts() -> Outcome {
    const UNCLASSED: usize = 70;
    let lab = Lab::open()?;
    let work = Work::classed(&lab, Level::BE, 200)?;
    let same = work.runtime.file.as_fd().try_clone_to_owned()?;
    let other = Runtime::on(ControlFile::from_fd(same), Spec::USUAL)?;
    for _ in 0..UNCLASSED {
        other.compute()?;
    }
    let subdevice = other.subdevice.context("no subdevice")?;
    let through = |runtime: &Runtime, subdevice| {
        switch(&runtime.file, runtime.client, subdevice, &work, true)
    };
    let before = counters(&lab)?;
    let status = through(&other, subdevice)?;
    check_eq!(status, Status::INSUFFICIENT_PERMISSIONS, "another client");
    check_eq!(counters(&lab)?, (before.0 + 1, before.1));
    // Another file has nothing to say, and the driver refuses.
    let stranger = Runtime::open()?;
    let subdevice = stranger.subdevice.context("no subdevice")?;
    let status = through(&stranger, subdevice)?;
    check_eq!(status, Status::INVALID_ARGUMENT, "another file");
    check_eq!(counters(&lab)?, (before.0 + 1, before.1));
    check_eq!(work.state()?, (0, 0));
    // The classed one of all that are in the file comes last, and then not at all.
    for _ in 0..UNCLASSED {
        work.runtime.compute()?;
    }
    check_eq!(work.switch(true)?, Status::INSUFFICIENT_PERMISSIONS);
    lab.zernel
        .clear_class(&Target::Tsg(lab.tsg(&work.runtime, work.tsg)?.id))?;
    lab.quiet()?;
    check_eq!(work.switch(true)?, Status::OK);
    check_eq!(work.state()?, (2, 0));
    agree()
}

fn programs_start_as_ever() -> Outcome {
    let lab = Lab::open()?;
    for policy in ["deny", "reapply", "allow"] {
        tune("user_control", policy)?;
        let before = counters(&lab)?;
        let calls = truth::kernel_calls(control::DISABLE_CHANNELS)?;
        Work::new(Runtime::open()?)?.start()?;
        Work::classed(&lab, Level::LC, 5_000_000)?.start()?;
        lab.quiet()?;
        check_eq!(counters(&lab)?, before, "{policy}");
        let now = truth::kernel_calls(control::DISABLE_CHANNELS)?;
        check_eq!(now, calls, "calls of zernel, {policy}");
    }
    Ok(())
}

/// While a request has the GPU for itself, no control of others gets them back on it.
fn kept_off_for_a_request() -> Outcome {
    // On a slow machine a lease, or the budget, would be over before the end of the case.
    tune("lease_us", "10000000")?;
    tune("level0_budget_us", "100000")?;
    let lab = Lab::open()?;
    tune("no_holder", "exclude")?;
    let urgent = Work::classed(&lab, Level::LC, 5_000_000)?;
    let classed = Work::classed(&lab, Level::BE, 200)?;
    let unclassed = Work::new(Runtime::open()?)?;
    let slots = Slots::map(&Zernel::open()?, 0..1)?;
    let slot = slots.slot(0).context("no slot")?;
    let id = lab.tsg(&urgent.runtime, urgent.tsg)?.id;
    for (policy, answer) in [
        ("deny", Status::INSUFFICIENT_PERMISSIONS),
        ("reapply", Status::OK),
        ("allow", Status::OK),
    ] {
        tune("user_control", policy)?;
        let begun = slot.begin(&Begin::new(id).without_holder())?;
        let (denied, reapplied) = counters(&lab)?;
        for work in [&classed, &unclassed] {
            work.wait_disabled(2)?;
            work.start()?;
            work.wait_disabled(2)?;
            check_eq!(work.act(Act::Enable)?, answer, "{policy}");
            work.wait_disabled(2)?;
        }
        let counted = match answer {
            Status::OK => (denied, reapplied + 8),
            _ => (denied + 2, reapplied + 6),
        };
        check_eq!(counters(&lab)?, counted, "{policy}");
        check_eq!(urgent.state()?, (0, 0), "{policy}");
        slot.cancel(begun.number)?;
        classed.wait_disabled(0)?;
        unclassed.wait_disabled(0)?;
    }
    Ok(())
}

/// A channel below a device is in a TSG that the hook does not see.
fn bare_channel() -> Outcome {
    let _lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let (client, device) = (runtime.client, runtime.device);
    let mut params = ChannelParams {
        vaspace: runtime.vaspace.0,
        engine: engine::GR0,
        ..ChannelParams::zeroed()
    };
    let bare = runtime.make(device, class::CHANNEL, bytes_of_mut(&mut params))?;
    runtime.control(bare, control::CHANNEL_SCHEDULE, &mut [1u8, 0, 0])?;
    runtime.control(bare, control::RESTART_RUNLIST, &mut [1u8, 1])?;
    let mut params = DisableChannels {
        disable: 1,
        count: 1,
        ..DisableChannels::default()
    };
    (params.clients[0], params.channels[0]) = (client.0, bare.0);
    let subdevice = runtime.subdevice.context("no subdevice")?;
    let status = runtime.control(subdevice, control::DISABLE_CHANNELS, &mut params);
    check_eq!(status_of(status)?, Status::OK);
    Ok(())
}
