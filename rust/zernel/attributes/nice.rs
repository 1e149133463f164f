// SPDX-License-Identifier: GPL-2.0
//! The tunables of nice values reach every thread that they concern.

use crate::{
    glue::{
        lock,
        nice::Births,
        work::Worker, //
    },
    nice::Table,
    request::boost::Boosts,
    tracking, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The switch for nice values, set by tunables.
pub(crate) struct Control {
    table: Arc<Table>,
    boosts: Arc<Worker<Boosts>>,
    /// From the first use on, also after it is turned off: a thread may have been in the making
    /// then.
    births: Option<Births>,
}

lock::global!(NICE: KBox<Control>);

/// Keeps the control there; everything is as before when this is dropped.
pub(crate) struct Installed(());

impl Installed {
    /// Makes it usable; called once, when the module is loaded.
    pub(crate) fn new(table: Arc<Table>, boosts: Arc<Worker<Boosts>>) -> Result<Self> {
        let control = Control {
            table,
            boosts,
            births: None,
        };
        *lock().lock() = Some(KBox::new(control, GFP_KERNEL)?);
        Ok(Self(()))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let control = lock().lock().take();
        if let Some(control) = control {
            // There are no slots any more, and no tracked threads.
            control.boosts.end();
            control.boosts.clear();
            // Then the probe goes.
            drop(control);
        }
    }
}

/// Changes a tunable of nice values; when this returns every thread follows it. `on`: a nice value
/// may differ from then on.
///
/// # Errors
///
/// Those of `change`, `EOPNOTSUPP`, `ENOMEM`, and `ENODEV` the module is on its way out; nothing
/// has changed then.
pub(crate) fn retune(on: bool, change: impl FnOnce() -> Result) -> Result {
    let mut guard = lock().lock();
    let control = guard.as_mut().ok_or(ENODEV)?;
    if on && control.births.is_none() {
        // First: no thread may be made with a changed value of its maker.
        control.births = Some(Births::new(control.table.clone())?);
    }
    change()?;
    if control.births.is_some() {
        tracking::renice();
        control.boosts.look();
    }
    Ok(())
}
