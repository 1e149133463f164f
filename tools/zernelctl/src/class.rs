// SPDX-License-Identifier: GPL-2.0
//! `class set`, `class get` and `class clear`.

use anyhow::Result;
use libzernel::{Class, Level, Target, Zernel};

use crate::output;

/// Gives `target` a class.
pub fn set(zernel: &Zernel, target: &Target, level: Level, json: bool) -> Result<()> {
    show(&zernel.set_class(target, level)?, json)
}

/// Shows the class of `target`.
pub fn get(zernel: &Zernel, target: &Target, json: bool) -> Result<()> {
    show(&zernel.class(target)?, json)
}

/// Takes the class of `target` away.
pub fn clear(zernel: &Zernel, target: &Target, json: bool) -> Result<()> {
    show(&zernel.clear_class(target)?, json)
}

fn show(class: &Class, json: bool) -> Result<()> {
    if json {
        return output::json(class);
    }
    output::text(&describe(class))
}

fn describe(class: &Class) -> String {
    let own = match (class.level, class.privileged) {
        (Some(level), true) => format!("{level} (set with privilege)"),
        (level, _) => output::level(level),
    };
    let effective = match class.effective {
        Some(level) => format!(
            "{level} (from {}, slice {})",
            class.source,
            output::microseconds(class.timeslice_us)
        ),
        None => "- (not classed)".to_owned(),
    };
    format!("own class: {own}\nin force:  {effective}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use libzernel::Source;

    #[test]
    fn both_levels_are_told() {
        let class = Class {
            level: None,
            effective: Some(Level::BE),
            source: Source::Cgroup,
            timeslice_us: 200,
            privileged: false,
        };
        assert_eq!(
            describe(&class),
            "own class: -\nin force:  be (from cgroup, slice 200 us)"
        );
        let json = serde_json::to_value(class).unwrap();
        assert_eq!(json["level"], serde_json::Value::Null);
        assert_eq!(json["effective"], 7);
    }
}
