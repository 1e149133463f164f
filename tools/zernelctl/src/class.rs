// SPDX-License-Identifier: MIT OR Apache-2.0
//! `class set`, `class get`, `class clear` and `class list`.

pub mod command;

use std::fmt::Display;

use anyhow::Result;
use clap::ValueEnum;
use libzernel::class::{Assignment, Attributes, Set, Value};
use libzernel::{Class, Source, Target, Zernel};

use crate::output;

/// An attribute of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Attribute {
    /// The level.
    Level,
    /// The weight.
    Weight,
    /// The time slice.
    Timeslice,
}

/// Gives `target` attributes; those that are not named stay.
pub fn set(zernel: &Zernel, target: &Target, class: Attributes, json: bool) -> Result<()> {
    zernel.set_class(target, class)?;
    get(zernel, target, json)
}

/// Shows the class of `target`.
pub fn get(zernel: &Zernel, target: &Target, json: bool) -> Result<()> {
    let class = zernel.class(target)?;
    if json {
        return output::json(&class);
    }
    output::text(&describe(&class))
}

/// Takes attributes of `target` away, all of them if none is named.
pub fn clear(zernel: &Zernel, target: &Target, names: &[Attribute], json: bool) -> Result<()> {
    let named = names.iter().fold(Set::NONE, |set, name| {
        set | match name {
            Attribute::Level => Set::LEVEL,
            Attribute::Weight => Set::WEIGHT,
            Attribute::Timeslice => Set::TIMESLICE,
        }
    });
    let clear = match names {
        [] => Set::ALL,
        _ => named,
    };
    zernel.change_class(target, clear, Attributes::default())?;
    get(zernel, target, json)
}

/// Shows all assignments.
pub fn list(zernel: &Zernel, json: bool) -> Result<()> {
    let all: Vec<_> = zernel.classes().collect::<libzernel::Result<_>>()?;
    if json {
        return output::json(&all);
    }
    output::text(&table(&all))
}

/// A value of the target's own, with a mark if it rests on privilege.
fn own<T: Display>(value: Option<T>, privileged: bool) -> String {
    match value {
        Some(value) if privileged => format!("{value} *"),
        Some(value) => value.to_string(),
        None => "-".to_owned(),
    }
}

/// The origin of a value in plain words.
fn origin<T>(value: &Value<T>) -> String {
    let source = match value.source {
        Source::None => "nothing is set".to_owned(),
        Source::Default => "tunable default_class".to_owned(),
        Source::Level => "tunables of the level".to_owned(),
        source => source.to_string(),
    };
    let source = match value.assignment {
        Some(id) => format!("{source}, assignment {id}"),
        None => source,
    };
    match value.why.is_none() {
        true => source,
        false => format!("{source}; {}", value.why),
    }
}

fn describe(class: &Class) -> String {
    let is = |name| class.privileged.contains(name);
    let slice = match class.timeslice_us.value {
        0 => "driver's".to_owned(),
        us => output::microseconds(us),
    };
    let rows = [
        vec![
            "level".to_owned(),
            own(class.own.level, is(Set::LEVEL)),
            output::level(class.level.value),
            origin(&class.level),
        ],
        vec![
            "weight".to_owned(),
            own(class.own.weight, is(Set::WEIGHT)),
            class.weight.value.to_string(),
            origin(&class.weight),
        ],
        vec![
            "time slice".to_owned(),
            own(
                class.own.timeslice_us.map(output::microseconds),
                is(Set::TIMESLICE),
            ),
            slice,
            origin(&class.timeslice_us),
        ],
    ];
    let table = output::table(["", "OWN", "IN FORCE", "FROM"], |_| false, rows);
    match class.privileged.is_empty() {
        true => table,
        false => format!("{table}\n* set by a manager"),
    }
}

fn table(all: &[Assignment]) -> String {
    if all.is_empty() {
        return "No class is set that you may see.".to_owned();
    }
    let rows = all.iter().map(|one| {
        let is = |name| one.privileged.contains(name);
        vec![
            one.id.to_string(),
            one.target.to_string(),
            one.uid.to_string(),
            own(one.own.level, is(Set::LEVEL)),
            own(one.own.weight, is(Set::WEIGHT)),
            own(
                one.own.timeslice_us.map(output::microseconds),
                is(Set::TIMESLICE),
            ),
            one.tsgs.to_string(),
        ]
    });
    let right = |name: &str| ["ID", "UID", "TSGS"].contains(&name);
    let header = ["ID", "TARGET", "UID", "LEVEL", "WEIGHT", "SLICE", "TSGS"];
    let table = output::table(header, right, rows);
    match all.iter().any(|one| !one.privileged.is_empty()) {
        true => format!("{table}\n* set by a manager"),
        false => table,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libzernel::class::{Of, Why};
    use libzernel::{Level, Timestamp, Weight};

    fn value<T>(value: T, source: Source) -> Value<T> {
        Value {
            value,
            source,
            assignment: None,
            why: Why::NONE,
        }
    }

    #[test]
    fn each_attribute_tells_its_value_and_origin() {
        let mut class = Class {
            assignment: None,
            own: Attributes::default(),
            privileged: Set::NONE,
            level: value(Some(Level::BE), Source::Cgroup),
            weight: value(Weight::DEFAULT, Source::None),
            timeslice_us: value(200, Source::Level),
        };
        assert_eq!(
            describe(&class),
            "            OWN  IN FORCE  FROM\n\
             level       -    be        cgroup\n\
             weight      -    1024      nothing is set\n\
             time slice  -    200 us    tunables of the level"
        );
        class.own = Attributes::from(Level::BE).timeslice_us(900);
        class.privileged = Set::TIMESLICE;
        class.timeslice_us = Value {
            value: 50,
            source: Source::Process,
            assignment: Some(17),
            why: Why::TURNS | Why::CLAMPED,
        };
        let text = describe(&class);
        let last: Vec<_> = text.lines().skip(3).collect();
        assert_eq!(
            last,
            [
                "time slice  900 us *  50 us     process, assignment 17; bounds of tunables or of \
                 the GPU, best-effort TSGs take turns",
                "* set by a manager"
            ]
        );
    }

    #[test]
    fn assignments_are_a_table() {
        assert_eq!(table(&[]), "No class is set that you may see.");
        let one = Assignment {
            id: 17,
            target: Of::Process(4711),
            uid: 1000,
            made_ns: Timestamp::from_ns(1),
            own: Attributes::from(Level::LC),
            privileged: Set::LEVEL,
            tsgs: 3,
        };
        assert_eq!(
            table(&[one]),
            "ID  TARGET        UID  LEVEL  WEIGHT  SLICE  TSGS\n\
             17  process 4711  1000  lc *   -       -         3\n* set by a manager"
                .replace("  UID  LEVEL", "   UID  LEVEL")
        );
    }
}
