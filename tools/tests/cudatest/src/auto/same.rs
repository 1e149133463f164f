// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same results with the library and without.

use anyhow::ensure;
use testkit::check_eq;
use testkit::harness::Outcome;

use super::lab::{added, alone, serves, WAYS};

/// Sequences of random calls, for each way to the driver.
const SEQUENCES: usize = 1_250;

pub fn random_calls() -> Outcome {
    for (seed, way) in WAYS.into_iter().enumerate() {
        let (count, seed) = (SEQUENCES.to_string(), seed.to_string());
        let work = ["random", count.as_str(), seed.as_str()];
        let expected = alone(way, &work)?;
        check_eq!((expected.code, expected.errors.as_str()), (Some(0), ""));
        check_eq!(expected.output.lines().count(), SEQUENCES + 1);
        let mut output = String::new();
        let counts = added(|| {
            output = serves(way, &work)?;
            Ok(())
        })?;
        ensure!(counts["begun"] > 0, "{counts:?}");
        for (expected, line) in expected.output.lines().zip(output.lines()) {
            check_eq!(line, expected, "{way:?}");
        }
        check_eq!(output.lines().count(), SEQUENCES + 1);
    }
    Ok(())
}
