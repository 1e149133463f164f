// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels of a request, one by one.

use std::fmt;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::preparation::Preparation as Time;
use crate::Moments;

/// Most kernels of a request.
pub(crate) const MOST: u32 = 256;

/// The shortest kernel of the software GPU, and the longest.
const SHORTEST: Duration = Duration::from_micros(1);
const LONGEST_US: u64 = 10_000_000;

/// Keeps the random numbers of kernels apart from those of preparations, which have the same seed.
const APART: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where a kernel can lose the GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    /// Between any two instructions.
    #[default]
    Instruction,
    /// Where its running blocks end: after each so many microseconds of progress.
    Block(u64),
}

/// A kernel of a list, or several that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Its time on the GPU alone, in microseconds: a number or a distribution, 1 to 10,000,000.
    pub us: Time,
    /// Microseconds more for each unit of a request's size.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub us_per_size: f64,
    /// Share of the GPU that it can use, in thousandths.
    #[serde(default = "whole")]
    pub share_permille: u32,
    /// Where it can lose the GPU.
    #[serde(default, with = "serde_yaml_ng::with::singleton_map")]
    pub granularity: Granularity,
    /// So many in a row, each of a time of its own.
    #[serde(default = "one")]
    pub times: u32,
}

pub(crate) const fn one() -> u32 {
    1
}

const fn whole() -> u32 {
    1_000
}

pub(crate) fn is_nothing(us: &f64) -> bool {
    *us == 0.0
}

/// The kernels of a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Kernels {
    /// So many that are alike.
    Count(u32),
    /// These.
    List(Vec<Kernel>),
}

impl Default for Kernels {
    fn default() -> Self {
        Self::Count(one())
    }
}

impl<'de> Deserialize<'de> for Kernels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Kernels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the number of kernels, or a list of {us: ..., share_permille: ...}")
            }

            fn visit_u64<E: Error>(self, count: u64) -> Result<Kernels, E> {
                let count = u32::try_from(count).map_err(|_| E::custom("too many kernels"))?;
                Ok(Kernels::Count(count))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Kernels, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(list)).map(Kernels::List)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// One request, of which a distribution tells the times.
#[derive(Debug, Clone, Copy, Default)]
pub struct Draw {
    /// Seed of its client.
    pub seed: u64,
    /// Arrivals before it.
    pub number: u64,
    /// When it arrives, from the start of the run.
    pub at: Duration,
    /// Its size.
    pub size: u64,
}

/// Equal kernels of a request that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Their time on the GPU alone, all together.
    pub time: Duration,
    /// Their number.
    pub count: u32,
    /// Share of the GPU that each can use, in thousandths.
    pub share_permille: u32,
    /// They can lose the GPU only after each so much of progress.
    pub block: Option<Duration>,
}

/// The time of a kernel of a request, the one with this number in it.
pub(crate) fn time(us: &Time, us_per_size: f64, draw: &Draw, kernel: u64) -> Duration {
    let seed = draw.seed ^ APART.wrapping_mul(kernel + 1);
    let time = us.sample(seed, draw.number, draw.at) + longer(us_per_size, draw.size);
    time.max(SHORTEST)
}

/// The time that a size adds.
fn longer(us_per_size: f64, size: u64) -> Duration {
    Duration::from_secs_f64((us_per_size * size as f64 / 1e6).clamp(0.0, 1e6))
}

/// Its mean.
pub(crate) fn mean(us: &Time, us_per_size: f64, size: u64) -> Duration {
    (us.mean() + longer(us_per_size, size)).max(SHORTEST)
}

/// Checks the time of a kernel or of a request, for sizes of up to `largest`.
pub(crate) fn check_time(us: &Time, us_per_size: f64, largest: u64) -> Result<()> {
    match *us {
        Time::Constant(us) => ensure!(
            (1..=LONGEST_US).contains(&us),
            "{us} us; give it 1 to {LONGEST_US} us"
        ),
        _ => us.check()?,
    }
    ensure!(
        (0.0..=1e6).contains(&us_per_size),
        "an us_per_size of {us_per_size}; give it 0 to 1000000 us"
    );
    check_sum(mean(us, us_per_size, largest), largest)
}

/// Checks the mean time of a kernel or of a request, for a size of `largest`.
fn check_sum(mean: Duration, largest: u64) -> Result<()> {
    let us = mean.as_micros();
    ensure!(
        mean <= Duration::from_micros(LONGEST_US),
        "{us} us for a size of {largest}; {LONGEST_US} us at most are simulated"
    );
    Ok(())
}

impl Kernel {
    /// True if its time is not always the same.
    fn varies(&self) -> bool {
        !matches!(self.us, Time::Constant(_)) || self.us_per_size > 0.0
    }

    fn block(&self, time: Duration) -> Option<Duration> {
        match self.granularity {
            Granularity::Instruction => None,
            Granularity::Block(us) => Some(Duration::from_micros(us).min(time)),
        }
    }

    fn check(&self, largest: u64) -> Result<()> {
        check_time(&self.us, self.us_per_size, largest).context("it takes")?;
        ensure!(
            (1..=1_000).contains(&self.share_permille),
            "its share_permille is {}; give it 1 to 1000",
            self.share_permille
        );
        ensure!(
            (1..=MOST).contains(&self.times),
            "its times are {}; give it 1 to {MOST}",
            self.times
        );
        if let Granularity::Block(block) = self.granularity {
            let most = match self.us {
                Time::Constant(us) => us,
                _ => LONGEST_US,
            };
            ensure!(
                (1..=most).contains(&block),
                "its block is {block} us; give it 1 to {most}, which is the time of the kernel at \
                 most"
            );
        }
        Ok(())
    }
}

/// The pieces of a list.
pub(crate) fn pieces(list: &[Kernel], draw: &Draw) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut number = 0;
    for kernel in list {
        let (draws, count) = match kernel.varies() {
            true => (kernel.times, 1),
            false => (1, kernel.times),
        };
        for _ in 0..draws {
            let each = time(&kernel.us, kernel.us_per_size, draw, number);
            pieces.push(Piece {
                time: each * count,
                count,
                share_permille: kernel.share_permille,
                block: kernel.block(each),
            });
            number += u64::from(count);
        }
    }
    pieces
}

/// True if the kernels of a list do not always take the same time.
pub(crate) fn vary(list: &[Kernel]) -> bool {
    list.iter().any(Kernel::varies)
}

/// The mean time of a list.
pub(crate) fn mean_of(list: &[Kernel], size: u64) -> Duration {
    let each = |one: &Kernel| mean(&one.us, one.us_per_size, size) * one.times;
    list.iter().map(each).sum()
}

/// The moments of the time of a list, for requests of these sizes.
pub(crate) fn moments(list: &[Kernel], sizes: Moments) -> Option<Moments> {
    let mut sum = Moments::default();
    let mut us_per_size = 0.0;
    for kernel in list {
        let each = kernel.us.moments()?;
        sum = (0..kernel.times).fold(sum, |sum, _| sum.plus(each));
        us_per_size += kernel.us_per_size * f64::from(kernel.times);
    }
    // All kernels of a request have the same size.
    Some(sum.plus(sizes.scaled(us_per_size / 1e6)))
}

/// The number of kernels of a list.
pub(crate) fn count(list: &[Kernel]) -> u32 {
    let times = list.iter().map(|kernel| kernel.times);
    times.fold(0, u32::saturating_add)
}

/// Checks a list, for sizes of up to `largest`.
pub(crate) fn check(list: &[Kernel], largest: u64) -> Result<()> {
    for (number, kernel) in list.iter().enumerate() {
        kernel
            .check(largest)
            .with_context(|| format!("kernel {}", number + 1))?;
    }
    let count = count(list);
    ensure!(
        (1..=MOST).contains(&count),
        "the list has {count} kernels; give it 1 to {MOST}"
    );
    check_sum(mean_of(list, largest), largest).context("all of them take")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Kernel> {
        match serde_yaml_ng::from_str(text).unwrap() {
            Kernels::List(list) => list,
            Kernels::Count(count) => panic!("{count}"),
        }
    }

    fn draw(number: u64) -> Draw {
        Draw {
            seed: 3,
            number,
            ..Draw::default()
        }
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_list_becomes_pieces_of_equal_kernels() {
        let list = read(
            "
            - {us: 300, share_permille: 600}
            - {us: 50, times: 4, granularity: {block: 20}}
            - {us: 7, us_per_size: 0.5, granularity: instruction}
            ",
        );
        check(&list, 100).unwrap();
        let sized = Draw { size: 8, ..draw(0) };
        let piece = |time, count, share_permille, block| Piece {
            time,
            count,
            share_permille,
            block,
        };
        let expected = [
            piece(us(300), 1, 600, None),
            piece(us(200), 4, 1_000, Some(us(20))),
            piece(us(11), 1, 1_000, None),
        ];
        assert_eq!(pieces(&list, &sized), expected);
        assert_eq!((count(&list), mean_of(&list, 8)), (6, us(511)));
        assert!(vary(&list) && !vary(&list[..2]));
    }

    #[test]
    fn each_kernel_of_a_request_is_drawn_by_itself() {
        let list =
            read("[{us: {uniform: {low: 100, high: 900}}, times: 3, granularity: {block: 500}}]");
        let first = pieces(&list, &draw(0));
        assert_eq!(first, pieces(&list, &draw(0)));
        assert_ne!(first, pieces(&list, &draw(1)));
        assert_eq!(first.len(), 3);
        assert!(first[0].time != first[1].time && first[1].time != first[2].time);
        for piece in first {
            assert!((us(100)..=us(900)).contains(&piece.time));
            // A kernel that is shorter than its blocks is one block.
            assert_eq!(piece.block, Some(us(500).min(piece.time)));
        }
        let mean: Duration = (0..2_000)
            .flat_map(|number| pieces(&list, &draw(number)))
            .map(|piece| piece.time)
            .sum::<Duration>()
            / 6_000;
        assert!((us(485)..us(515)).contains(&mean), "{mean:?}");
    }

    #[test]
    fn no_kernel_is_shorter_than_the_gpu_can_do() {
        let list = read("[{us: {uniform: {low: 0, high: 1}}}]");
        for number in 0..100 {
            assert_eq!(pieces(&list, &draw(number))[0].time, SHORTEST);
        }
    }

    #[test]
    fn each_bad_kernel_has_an_error_of_its_own() {
        for (text, said) in [
            ("[]", "the list has 0 kernels"),
            ("[{us: 0}]", "kernel 1: it takes: 0 us"),
            ("[{us: 10000001}]", "10000001 us"),
            (
                "[{us: 6000000}, {us: 2000001, times: 2}]",
                "all of them take: 10000002 us",
            ),
            (
                "[{us: 1, us_per_size: 60000}, {us: 1, us_per_size: 50000}]",
                "all of them take: 11000002 us for a size of 100;",
            ),
            (
                "[{us: 5}, {us: {uniform: {low: 2, high: 1}}}]",
                "kernel 2: it takes: a uniform",
            ),
            ("[{us: 5, share_permille: 0}]", "its share_permille is 0"),
            (
                "[{us: 5, share_permille: 1001}]",
                "its share_permille is 1001",
            ),
            ("[{us: 5, times: 0}]", "its times are 0"),
            (
                "[{us: 5, times: 200}, {us: 5, times: 57}]",
                "the list has 257 kernels",
            ),
            ("[{us: 5, granularity: {block: 0}}]", "its block is 0 us"),
            ("[{us: 5, granularity: {block: 6}}]", "its block is 6 us"),
            ("[{us: 5, us_per_size: -1}]", "an us_per_size of -1"),
            ("[{us: 5, us_per_size: .nan}]", "an us_per_size of NaN"),
            ("[{us: 5, us_per_size: 200000}]", "us for a size of 100"),
        ] {
            let error = format!("{:#}", check(&read(text), 100).unwrap_err());
            assert!(error.contains(said), "{error}, not {said}");
        }
        for text in [
            "[{share_permille: 5}]",
            "[{us: 5, grain: 4}]",
            "[{us: 5, granularity: warp}]",
            "many",
            "-1",
            "5000000000",
        ] {
            assert!(serde_yaml_ng::from_str::<Kernels>(text).is_err(), "{text}");
        }
    }
}
