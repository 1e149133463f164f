// SPDX-License-Identifier: GPL-2.0
//! `class set`, `class get` and `class clear`.

use anyhow::Result;
use libzernel::{Class, Level, Target, Weight, Zernel};

use crate::output;

/// Gives `target` a class; without `weight` the one that it has stays.
pub fn set(
    zernel: &Zernel,
    target: &Target,
    level: Level,
    weight: Option<Weight>,
    json: bool,
) -> Result<()> {
    show(&zernel.set_class_with(target, level, weight)?, json)
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
    let weight = class.weight.unwrap_or_default();
    let own = match (class.level, class.privileged) {
        (Some(level), true) => format!("{level} (weight {weight}, set with privilege)"),
        (Some(level), false) => format!("{level} (weight {weight})"),
        (None, _) => output::level(None),
    };
    let effective = match class.effective {
        Some(level) => format!(
            "{level} (from {}, slice {}, weight {})",
            class.source,
            output::microseconds(class.timeslice_us),
            class.effective_weight
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
            weight: None,
            effective_weight: Weight::DEFAULT,
            privileged: false,
        };
        assert_eq!(
            describe(&class),
            "own class: -\nin force:  be (from cgroup, slice 200 us, weight 1024)"
        );
        let own = Class {
            level: Some(Level::BE),
            weight: Weight::new(3000),
            privileged: true,
            ..class
        };
        assert_eq!(
            describe(&own).lines().next(),
            Some("own class: be (weight 3000, set with privilege)")
        );
        let json = serde_json::to_value(class).unwrap();
        assert_eq!(json["level"], serde_json::Value::Null);
        assert_eq!(json["effective"], 7);
        assert_eq!(json["weight"], serde_json::Value::Null);
        assert_eq!(json["effective_weight"], 1024);
    }
}
