// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same results with the library and without.

use std::time::{Duration, Instant};

use anyhow::ensure;
use testkit::check_eq;
use testkit::harness::Outcome;

use super::lab::{added, alone, serves_with, ALL_SITES, JUDGED, WAYS};

/// Sequences of random calls for each way to the driver in a round: 1,000 in all.
const SEQUENCES: usize = 125;
/// Rounds, 10,000 sequences in all, unless the machine is slow.
const ROUNDS: usize = 10;
/// No further round begins after so long.
const LONGEST: Duration = Duration::from_secs(60);

pub fn random_calls() -> Outcome {
    let (start, mut rounds, mut begun) = (Instant::now(), 0, 0);
    while rounds < ROUNDS && (rounds == 0 || start.elapsed() < LONGEST) {
        for (at, way) in WAYS.into_iter().enumerate() {
            let (count, seed) = (SEQUENCES.to_string(), (100 * rounds + at).to_string());
            let work = ["random", count.as_str(), seed.as_str()];
            let expected = alone(way, &work)?;
            check_eq!((expected.code, expected.errors.as_str()), (Some(0), ""));
            let mut output = String::new();
            let variable = if at % 2 == 0 { JUDGED } else { ALL_SITES };
            let counts = added(|| {
                output = serves_with(way, &work, variable)?;
                Ok(())
            })?;
            begun += counts["begun"];
            for (expected, line) in expected.output.lines().zip(output.lines()) {
                check_eq!(line, expected, "{way:?} {seed}");
            }
            check_eq!(output.lines().count(), SEQUENCES + 1);
        }
        rounds += 1;
    }
    let sequences = rounds * SEQUENCES * WAYS.len();
    eprintln!("# {sequences} sequences, {begun} requests");
    ensure!(begun > 0);
    Ok(())
}
