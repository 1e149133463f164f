// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's interface layer, our hooks and zernel, on the software resource manager.

pub mod class;
pub mod control;
pub mod engine;
pub mod evade;
pub mod failure;
pub mod hostile;
pub mod kick;
pub mod life;
pub mod list;
pub mod pin;
pub mod race;
pub mod records;
pub mod request;
pub mod schedule;
pub mod sharing;
pub mod start;
pub mod suspend;
pub mod unplug;
pub mod verify;
