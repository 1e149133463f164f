// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why figures differ from the published ones: texts that people wrote, in a file of their own.

use anyhow::{Context, Result};
use serde::Deserialize;
use zernel_workload::Deployment;

use super::line::Figure;
use crate::outcome::Mode;
use crate::suite::{Done, Section};

/// The texts.
const TEXT: &str = include_str!("../../explanations.yaml");

/// A text and what it is for; what is left out is anything.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Explanation {
    #[serde(default)]
    section: Vec<Section>,
    #[serde(default)]
    workload: Vec<String>,
    #[serde(default)]
    mode: Vec<Mode>,
    #[serde(default)]
    figure: Vec<Figure>,
    #[serde(default)]
    deployment: Option<Deployment>,
    why: String,
}

/// All texts, the most specific ones first.
#[derive(Debug)]
pub struct Explanations(Vec<Explanation>);

impl Explanations {
    /// Those that come with the program.
    pub fn load() -> Result<Self> {
        let texts = serde_yaml_ng::from_str(TEXT).context("explanations.yaml is invalid")?;
        Ok(Self(texts))
    }

    /// Why a figure differs.
    pub fn find(&self, done: &Done, mode: Mode, figure: Figure) -> Option<String> {
        let found = self.0.iter().find(|one| {
            let any = |list: &[String], what: &String| list.is_empty() || list.contains(what);
            (one.section.is_empty() || one.section.contains(&done.section))
                && any(&one.workload, &done.workload)
                && (one.mode.is_empty() || one.mode.contains(&mode))
                && (one.figure.is_empty() || one.figure.contains(&figure))
                && one
                    .deployment
                    .is_none_or(|deployment| deployment == done.deployment)
        })?;
        Some(found.why.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_sound() {
        let texts = Explanations::load().unwrap();
        assert!(texts.0.iter().all(|one| one.why.len() > 40));
    }
}
