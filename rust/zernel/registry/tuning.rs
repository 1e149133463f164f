// SPDX-License-Identifier: GPL-2.0
//! A change of a tunable reaches every TSG that it concerns.

use super::{
    after::Walk,
    Registry, //
};
use crate::{
    policy::{
        class::Layers,
        tunables::{
            Refused,
            Tunables, //
        },
    },
    tuned, //
};

impl Registry {
    /// Changes the tunables, and brings everything in line with them.
    ///
    /// # Errors
    ///
    /// The refusal of `change`; nothing has changed then.
    pub(crate) fn tune(
        &mut self,
        change: impl FnOnce(&mut Tunables) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let mut tunables = self.tunables;
        change(&mut tunables)?;
        let default_changed = tunables.default_class() != self.tunables.default_class();
        let settings_changed = tunables.gives_other_settings(&self.tunables);
        let tightened = self
            .tunables
            .user_control()
            .is_tightened_by(tunables.user_control());
        let turns_changed = tunables.turns() != self.tunables.turns()
            || tunables.enabled() != self.tunables.enabled()
            || tunables.slices().kept() != self.tunables.slices().kept()
            || tunables.gives_other_budgets(&self.tunables);
        let follows = |t: &Tunables| {
            let order = t.requests().order();
            (t.feedback().is_some(), t.slack().is_some(), order)
        };
        let follows_changed = follows(&tunables) != follows(&self.tunables);
        self.tunables = tunables;
        tuned::publish(&tunables);
        self.view.tune(tunables.meaning(), &mut self.writer);
        if default_changed {
            self.groups
                .set_default(Layers::default_class(tunables.default_class()));
        }
        if default_changed || settings_changed {
            self.walk(Walk::all(false));
        }
        if turns_changed {
            self.change_turns();
        } else if follows_changed {
            self.gpus.iter().for_each(|(_, gpu)| gpu.kick());
        }
        if tightened {
            self.walk(Walk::all(true));
        }
        self.tell_states();
        Ok(())
    }
}
