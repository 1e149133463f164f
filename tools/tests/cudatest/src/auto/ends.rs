// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that end before their time, and programs that do.

use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use rustix::process::Signal;
use testkit::harness::Outcome;
use testkit::random::Random;
use testkit::zernelctl::Running;
use testkit::{check_eq, wait_until};

use super::lab::{added, serves, serves_with, stats, zernelctl, JUDGED, USUAL, WAYS};
use super::meet::longest;
use crate::lab::lease;

/// A lease that nobody waits out.
const LONG: Duration = Duration::from_secs(5);

pub fn stalls() -> Outcome {
    lease(&LONG.as_micros().to_string())?;
    let output = serves(USUAL, &["stalls", "40"])?;
    let longest = longest(&output)?;
    ensure!(longest < LONG / 2, "a call waited {longest:?}");
    Ok(())
}

/// Copies without work have fewer and fewer requests.
pub fn copies() -> Outcome {
    const COUNT: u64 = 2_000;
    lease("10000000")?;
    let counts = added(|| serves_with(USUAL, &["copies", &COUNT.to_string()], JUDGED).map(|_| ()))?;
    ensure!(counts["begun"] >= 32, "{counts:?}");
    ensure!(counts["begun"] < COUNT / 8, "{counts:?}");
    check_eq!((counts["done"], counts["expired"]), (0, 0), "{counts:?}");
    Ok(())
}

/// A program is killed anywhere: nothing of it is left, and the next one serves.
pub fn killed() -> Outcome {
    const ROUNDS: u64 = 40;
    /// No further one begins after so long, on a slow machine.
    const LONGEST: Duration = Duration::from_secs(20);
    let (start, mut random) = (Instant::now(), Random::new(17));
    lease("5000000")?;
    for round in 0..ROUNDS {
        if round >= WAYS.len() as u64 && start.elapsed() > LONGEST {
            break;
        }
        let way = WAYS[round as usize % WAYS.len()];
        let arguments = way.with_requests(&["serve", "1000000"]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let before = stats()?.begun;
        let running = Running::start(&arguments)?;
        let after = random.below(60);
        wait_until("it has served so often", || {
            Ok(stats()?.begun >= before + after)
        })?;
        running.signal(Signal::KILL)?;
        running.end()?;
        wait_until("its requests are over", || Ok(stats()?.in_flight == 0))?;
        wait_until("its TSGs are gone", || {
            Ok(libzernel::Zernel::open()?.stats()?.tsgs == 0)
        })?;
    }
    serves(USUAL, &["serve", "20"]).map(|_| ())
}

/// The sentences of a program that serves with a variable set, which it does as ever.
fn says(variables: &[(&str, &str)]) -> Result<String> {
    let mut errors = String::new();
    let counts = added(|| {
        let outcome = zernelctl(&USUAL.with_requests(&["serve", "20"]), variables)?;
        check_eq!(
            (outcome.code, outcome.output.as_str()),
            (Some(0), "served\n")
        );
        errors = outcome.errors;
        Ok(())
    })?;
    check_eq!(counts["begun"], 0, "{variables:?}");
    Ok(errors)
}

pub fn sentences() -> Outcome {
    let aside = |why: &str| format!("zernel: {why}; this program runs without requests\n");
    check_eq!(says(&[("ZERNEL", "off")])?, String::new());
    let wrong = "ZERNEL_AUTO: 'lanes=65': lanes are 1 to 64";
    check_eq!(says(&[("ZERNEL_AUTO", "lanes=65")])?, aside(wrong));
    check_eq!(
        says(&[("FAKECUDA_MPS", "1")])?,
        aside("MPS is on: the TSG of the context is not this program's alone")
    );
    check_eq!(
        says(&[("FAKECUDA_DRIVER", "11080")])?,
        aside("libcuda.so.1 is of CUDA 11.8; it takes 12.0")
    );
    check_eq!(
        says(&[("FAKECUDA_ABSENT", "cuMemGetInfo")])?,
        aside("libcuda.so.1 lacks cuMemGetInfo")
    );
    Ok(())
}
