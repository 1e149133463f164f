// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `class`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args as ClapArgs, Subcommand};
use libzernel::class::Attributes;
use libzernel::{tsg, Level, Target, Weight, Zernel};

use super::Attribute;
use crate::cli::{process, thread};

/// A command about classes.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set attributes of a target's class; the others stay.
    ///
    /// Lowering your own targets is free; all else needs CAP_SYS_NICE or membership of the group in
    /// the tunable lc_gid.
    #[command(group = clap::ArgGroup::new("attributes").required(true).multiple(true))]
    Set {
        /// The level: lc, be, another name such as normal, or a number from 0 (most urgent) to 7.
        #[arg(group = "attributes", conflicts_with = "named_level")]
        level: Option<Level>,
        #[command(flatten)]
        target: TargetArgs,
        /// The level as an option.
        #[arg(
            long = "level",
            id = "named_level",
            group = "attributes",
            value_name = "LEVEL"
        )]
        named_level: Option<Level>,
        /// Share of its TSGs where best-effort TSGs take turns, from 1 to 10000, relative to the
        /// default of 1024.
        #[arg(long, group = "attributes", value_name = "N")]
        weight: Option<Weight>,
        /// Time slice instead of the level's, in microseconds, from 10 to 10000000.
        #[arg(long, group = "attributes", value_name = "US", value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
        timeslice: Option<u32>,
    },
    /// Show a target's class: its own attributes, those in force, and their sources.
    ///
    /// Another user's target needs CAP_PERFMON, CAP_SYS_NICE or membership of the group lc_gid.
    Get {
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Clear a target's own attributes: the named ones, or all.
    Clear {
        /// The attributes to clear.
        #[arg(value_enum)]
        attributes: Vec<Attribute>,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// List your classes, or all with CAP_PERFMON.
    List,
}

impl Command {
    /// Runs it.
    pub fn run(&self, zernel: &Zernel, json: bool) -> Result<()> {
        match self {
            Self::Set {
                level,
                target,
                named_level,
                weight,
                timeslice,
            } => {
                let mut class = Attributes::default();
                class.level = level.or(*named_level);
                class.weight = *weight;
                class.timeslice_us = *timeslice;
                super::set(zernel, &target.target()?, class, json)
            }
            Self::Get { target } => super::get(zernel, &target.target()?, json),
            Self::Clear { attributes, target } => {
                super::clear(zernel, &target.target()?, attributes, json)
            }
            Self::List => super::list(zernel, json),
        }
    }
}

/// The target of a command.
#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// A TSG, by its id in `tsg list`.
    #[arg(long, value_name = "ID")]
    tsg: Option<tsg::Id>,
    /// A thread.
    #[arg(long, value_name = "TID", value_parser = thread)]
    tid: Option<u32>,
    /// A process.
    #[arg(long, value_name = "PID", value_parser = process)]
    pid: Option<u32>,
    /// A cgroup v2 directory: every process in it and below.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
}

impl TargetArgs {
    fn target(&self) -> libzernel::Result<Target> {
        if let Some(id) = self.tsg {
            return Ok(Target::Tsg(id));
        }
        if let Some(tid) = self.tid {
            return Ok(Target::Thread(tid));
        }
        if let Some(path) = &self.cgroup {
            return Target::cgroup(path);
        }
        // One of the four is there, as clap has checked. A pidfd cannot come to mean another
        // process between here and the call.
        Target::pidfd(self.pid.unwrap_or(0))
    }
}
