// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sentences on the standard error.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Different sentences that a process says at most.
const MOST: usize = 8;

/// Says why there are no requests, once for each cause.
pub fn aside(why: &str) {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.len() >= MOST || told.iter().any(|other| other == why) {
        return;
    }
    told.push(why.to_owned());
    // A program may have closed it.
    let _ = writeln!(
        std::io::stderr(),
        "zernel: {why}; this program runs without requests"
    );
}
