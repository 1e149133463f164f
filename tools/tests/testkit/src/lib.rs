// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common part of test programs for a guest: cases in processes of their own, KTAP, modules
//! that come and go, raw calls, zernelctl.

pub mod child;
pub mod faults;
pub mod group;
pub mod harness;
pub mod log;
pub mod module;
pub mod own;
pub mod passing;
pub mod power;
pub mod random;
mod repeat;
pub mod sys;
pub mod verify;
mod wait;
pub mod zernelctl;

pub use repeat::{is_short, run_short, Repeat};
pub use wait::{at_once, wait_until, wait_until_within, SOON};

/// Fails with both values unless they are equal.
#[macro_export]
macro_rules! check_eq {
    ($left:expr, $right:expr $(,)?) => {
        $crate::check_eq!($left, $right, "{}", stringify!($left))
    };
    ($left:expr, $right:expr, $($what:tt)+) => {{
        match (&$left, &$right) {
            (left, right) => if *left != *right {
                anyhow::bail!("{}: {left:?}, expected {right:?}", format_args!($($what)+));
            },
        }
    }};
}
