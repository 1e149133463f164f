// SPDX-License-Identifier: GPL-2.0
//! The software GPUs as a provider of `zernel.ko`.

use super::{
    fault::Faults,
    lacks,
    listener::Listener, //
};
use crate::{
    device::Card,
    glue::provider_side::{
        self,
        Lacks,
        Registration,
        TsgLoad, //
    },
    model::{
        measures::{
            Ns,
            Us, //
        }, //
        preset::DEFAULT_TIMESLICE,
        tsg::{
            Handle,
            Interleave, //
        },
    },
    settings::Settings,
    sim::Sim,
    uapi::*, //
};
use core::ops::Deref;
use kernel::{
    new_mutex,
    prelude::*,
    str::CString,
    sync::{
        Arc,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// A change that the owner of a TSG wants.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    /// Another time slice.
    Timeslice(Us),
    /// Another interleave level.
    Interleave(Interleave),
    /// To be scheduled, or not.
    Enabled(bool),
}

/// The software GPUs, with the faults of the operations on each.
pub(crate) struct Provided {
    sim: Arc<Sim>,
    faults: KVec<Pin<KBox<Mutex<Faults>>>>,
    lacks: Lacks,
}

/// The software GPUs, known to `zernel.ko`.
pub(crate) type Hub = Registration<Provided>;

impl Deref for Provided {
    type Target = Sim;

    fn deref(&self) -> &Sim {
        &self.sim
    }
}

impl Provided {
    /// Without faults.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` no such operations.
    pub(crate) fn new(sim: Arc<Sim>) -> Result<Arc<Self>> {
        let mut faults = KVec::with_capacity(sim.cards().len(), GFP_KERNEL)?;
        for _ in sim.cards() {
            let none = new_mutex!(Faults::new(), "zernel_sim_faults");
            faults.push(KBox::pin_init(none, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        let lacks = lacks::named(sim.settings.lacks)?;
        let new = Self { sim, faults, lacks };
        Ok(Arc::new(new, GFP_KERNEL)?)
    }

    /// Faults of the operations on a GPU.
    ///
    /// # Errors
    ///
    /// `ENOENT`
    pub(crate) fn faults(&self, gpu: u32) -> Result<&Mutex<Faults>> {
        let faults = self.faults.get(gpu as usize).ok_or(ENOENT)?;
        Ok(faults)
    }

    /// Changes a TSG for its owner, which `zernel.ko` was asked about.
    pub(crate) fn change(&self, gpu: u64, tsg: u64, change: Change) -> Result {
        let (card, tsg) = self.begin(ZERNEL_SIM_OP_USER_CONTROL, gpu, tsg)?;
        card.with(|model, now, sink| match change {
            Change::Timeslice(slice) => model.set_timeslice(now, tsg, slice, sink),
            Change::Interleave(level) => model.set_interleave(now, tsg, level, sink),
            Change::Enabled(enabled) => model.set_enabled(now, tsg, enabled, sink),
        })?;
        Ok(())
    }

    /// Has a GPU lose the settings of its TSGs, which then are those of a new one.
    pub(crate) fn forget(&self, card: &Card) -> Result {
        for place in 0..self.settings.max_tsgs {
            // Interrupts are off only as long as one TSG takes.
            card.with(|model, now, sink| {
                let Some(tsg) = model.handle_at(place) else {
                    return Ok(());
                };
                model.set_timeslice(now, tsg, DEFAULT_TIMESLICE, sink)?;
                model.set_interleave(now, tsg, Interleave::Low, sink)
            })?;
        }
        Ok(())
    }

    /// The GPU and the TSG of a call, after the faults that were asked for.
    fn begin(&self, op: u32, gpu: u64, tsg: u64) -> Result<(&Arc<Card>, Handle)> {
        let card = self.reach(op, gpu, tsg)?;
        if card.at_present(|model| model.suspended()) {
            return Err(EAGAIN);
        }
        Ok((card, Handle(tsg)))
    }

    /// The GPU of a call that a suspended one answers, too.
    fn reach(&self, op: u32, gpu: u64, tsg: u64) -> Result<&Arc<Card>> {
        let number = u32::try_from(gpu).map_err(|_| ENOENT)?;
        let card = self.card(number)?;
        let injection = self.faults(number)?.lock().take(op, tsg);
        if let Some(injection) = injection {
            sleep(Ns(injection.delay));
            if injection.error != 0 {
                return Err(Error::from_errno(injection.error));
            }
        }
        Ok(card)
    }
}

fn sleep(time: Ns) {
    if time > Ns::ZERO {
        fsleep(Delta::from_nanos(time.0 as i64));
    }
}

/// The UUID of a software GPU: of version 8, with free use of its bits.
fn uuid(number: u32) -> [u8; 16] {
    let [a, b, c, d] = number.to_be_bytes();
    [
        b'z', b'e', b'r', b'n', b'e', b'l', 0x80, 0, 0x80, b's', b'i', b'm', a, b, c, d,
    ]
}

/// Makes the GPUs and reports them to `zernel.ko`.
pub(crate) fn register(settings: Settings) -> Result<Arc<Hub>> {
    let provided = Provided::new(Sim::new(settings)?)?;
    let hub = Arc::new(Registration::new(provided)?, GFP_KERNEL)?;
    for card in hub.inner().cards() {
        let bus = CString::try_from_fmt(fmt!("sim:{}", card.number))?;
        let name = CString::try_from_fmt(fmt!("software {}", card.preset.name))?;
        hub.gpu_added(&provider_side::Gpu {
            handle: u64::from(card.number),
            min_us: 1,
            max_us: 0,
            name: &name,
            bus: &bus,
            numa_node: None,
            uuid: Some(&uuid(card.number)),
            driver: Some(c"software"),
            control: true,
            waits: true,
            context: true,
            polled: false,
        })?;
        let bell = Listener::of(hub.bell(u64::from(card.number)));
        // The one before goes without the lock.
        let before = card.listen(|listener| core::mem::replace(listener, bell));
        drop(before);
    }
    Ok(hub)
}

impl Hub {
    /// Ends a TSG that nobody can find any more: `zernel.ko` forgets it first.
    pub(crate) fn end(&self, card: &Card, tsg: Handle) {
        let gpu = u64::from(card.number);
        match load_of(card, tsg) {
            Ok(load) => self.tsg_ended(gpu, tsg.0, &load),
            Err(_) => self.tsg_removed(gpu, tsg.0),
        }
        card.destroy(tsg);
    }
}

/// The work of a TSG so far.
fn load_of(card: &Card, tsg: Handle) -> Result<TsgLoad> {
    let stats = card.at_present(|model| model.tsg_stats(tsg))?;
    Ok(TsgLoad {
        ran: stats.times.busy.0,
        runnable: stats.demand,
        since: stats.demand_since.0,
        preemptions: stats.preemptions,
        preempted: stats.preempted_at.0,
        // The bytes that a switch of a copy engine moves are not published.
        context_bytes: match stats.engine {
            0 => card.preset.context_bytes(),
            _ => 0,
        },
    })
}

#[vtable]
impl provider_side::Provider for Provided {
    const NAME: &'static CStr = c"sim";

    fn lacks(&self) -> Lacks {
        self.lacks
    }

    fn set_timeslice(&self, gpu: u64, tsg: u64, us: u32) -> Result {
        let (card, tsg) = self.begin(ZERNEL_SIM_OP_SET_TIMESLICE, gpu, tsg)?;
        sleep(self.settings.costs.slice);
        card.with(|model, now, sink| model.set_timeslice(now, tsg, Us(us), sink))?;
        Ok(())
    }

    fn timeslice(&self, gpu: u64, tsg: u64) -> Result<u32> {
        let (card, tsg) = self.begin(ZERNEL_SIM_OP_GET_TIMESLICE, gpu, tsg)?;
        Ok(card.at_present(|model| model.tsg_stats(tsg))?.timeslice.0)
    }

    fn set_interleave(&self, gpu: u64, tsg: u64, level: u32) -> Result {
        let (card, tsg) = self.begin(ZERNEL_SIM_OP_SET_INTERLEAVE, gpu, tsg)?;
        let level = Interleave::new(level).ok_or(EINVAL)?;
        sleep(self.settings.costs.slice);
        card.with(|model, now, sink| model.set_interleave(now, tsg, level, sink))?;
        Ok(())
    }

    fn interleave(&self, gpu: u64, tsg: u64) -> Result<u32> {
        let (card, tsg) = self.begin(ZERNEL_SIM_OP_GET_TIMESLICE, gpu, tsg)?;
        Ok(card
            .at_present(|model| model.tsg_stats(tsg))?
            .interleave
            .level())
    }

    fn preempt(&self, gpu: u64, tsg: u64, timeout_us: u32) -> Result {
        let (card, tsg) = self.begin(ZERNEL_SIM_OP_PREEMPT, gpu, tsg)?;
        let (cost, timeout) = (self.settings.costs.preempt, Us(timeout_us).ns());
        sleep(cost.min(timeout));
        if cost > timeout {
            return Err(ETIMEDOUT);
        }
        card.with(|model, now, sink| model.preempt(now, tsg, sink))?;
        Ok(())
    }

    fn set_enabled(&self, gpu: u64, tsg: u64, enabled: bool) -> Result {
        let (card, tsg) = self.begin(ZERNEL_SIM_OP_SET_ENABLED, gpu, tsg)?;
        sleep(self.settings.costs.enable);
        card.with(|model, now, sink| model.set_enabled(now, tsg, enabled, sink))?;
        Ok(())
    }

    fn kick(&self, gpu: u64, tsg: u64) -> Result {
        let (card, tsg) = self.begin(ZERNEL_SIM_OP_KICK, gpu, tsg)?;
        sleep(self.settings.costs.preempt);
        card.with(|model, now, sink| model.restart(now, tsg, false, sink))?;
        Ok(())
    }

    fn tsg_load(&self, gpu: u64, tsg: u64) -> Result<TsgLoad> {
        let card = self.reach(ZERNEL_SIM_OP_QUERY_TSG, gpu, tsg)?;
        load_of(card, Handle(tsg))
    }

    fn load(&self, gpu: u64) -> Result<(u64, u64)> {
        let (card, _) = self.begin(ZERNEL_SIM_OP_QUERY_LOAD, gpu, 0)?;
        let stats = card.at_present(|model| model.engine_stats(0))?;
        Ok((stats.times.busy.0, stats.now.since(stats.created).0))
    }
}
