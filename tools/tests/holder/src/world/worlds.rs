// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worlds that each code is put into.

use std::sync::Arc;

use super::{Clock, World, Writer};
use crate::machine::Program;

/// Without a store to release.
fn nobody() -> Writer {
    Writer::Hostile(Vec::new())
}

/// A program as it shall be, for numbers that wrap and such whose upper bit changes; bounds of 0,
/// of one tick, and without an end.
pub fn honest(program: &Arc<Program>) -> Vec<World> {
    let world = |number| World::honest(program, number);
    let bounded = |bound| World {
        bound,
        ..world(u32::MAX)
    };
    let numbers = [1, 2, 0x8000_0000, u32::MAX].map(world);
    let bounds = [0, 1, u64::MAX].map(bounded);
    numbers.into_iter().chain(bounds).collect()
}

/// Any words, from the beginning or at any time.
pub fn hostile(program: &Arc<Program>) -> Vec<World> {
    let mut found = Vec::new();
    for number in [1, u32::MAX] {
        let far = [0, 1, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, u32::MAX];
        let mut words = far.map(|far| number.wrapping_add(far)).to_vec();
        words.extend([0, 1]);
        let honest = World {
            bound: 2,
            ticks: 4,
            ..World::honest(program, number)
        };
        found.extend(words.iter().map(|&release| World {
            release,
            writer: nobody(),
            ..honest.clone()
        }));
        found.push(World {
            writer: Writer::Hostile(words),
            ..honest
        });
    }
    found
}

/// Timers that jump, wrap, or have steps of 32 ns and 1 µs; bounds of more than 32 bits.
pub fn timers(program: &Arc<Program>) -> Vec<World> {
    const DAY: u64 = 86_400_000_000_000;
    let world = |base, tick, grain, jumps: &[i64], bound| World {
        bound,
        clock: Clock {
            base,
            tick,
            grain,
            jumps: jumps.to_vec(),
        },
        ticks: 8,
        writer: nobody(),
        ..World::honest(program, 7)
    };
    vec![
        world(u64::from(u32::MAX) - 1, 1, 1, &[-1, 1, -1_000_000], 3),
        world(u64::MAX - 2, 1, 1, &[-2, 2], 4),
        world(DAY, 0x4000_0000, 1, &[-1, 1, -9], 0x1_4000_0000),
        world(DAY, 0x4000_0000, 1, &[], 0x1_4000_0001),
        world(u64::MAX / 2, 1 << 59, 1, &[], 1 << 61),
        world(DAY + 5, 20, 32, &[-1, 3], 50),
        world(DAY + 999, 400, 1_000, &[-1], 1_500),
        world(DAY, 400, 1_000, &[], 0),
    ]
}

/// All of them.
pub fn all(program: &Arc<Program>) -> Vec<World> {
    [honest, hostile, timers]
        .iter()
        .flat_map(|worlds| worlds(program))
        .collect()
}
