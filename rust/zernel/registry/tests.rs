// SPDX-License-Identifier: GPL-2.0
//! KUnit suites of the registry and of the steps of its workers, with a driver of their own.

mod attributes;
mod control;
mod descriptions;
mod fixture;
mod news;
mod population;
mod precedence;
mod queue;
mod refresh;
mod requests;
mod schedule;
mod slices;
mod steps;
mod turns;
