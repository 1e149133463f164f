// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that are known by name: their time, and what they compute.

use std::time::Duration;

use crate::cost::{Costs, Size};
use crate::ptx::{Entry, Parameter};
use crate::space::Held;
use crate::status::{Result, Status};
use crate::sys::memory;

/// Share of the GPU that a holder uses: one multiprocessor of about a hundred.
pub(crate) const HOLDER_PERMILLE: u32 = 10;

/// Time of a round of the kernels of zernel-gputest whose results are compared.
const LOST_ROUND: Duration = Duration::from_micros(10);

/// The results that a kernel leaves in memory. Addresses are the GPU's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Compute {
    /// c = a + b.
    VectorAdd { a: u64, b: u64, c: u64, n: u32 },
    /// y = a x + y.
    Saxpy { n: u32, a: f32, x: u64, y: u64 },
    /// `rounds` steps of x = 1664525 x + 1013904223 from x = seed + i, for each i.
    Mac {
        out: u64,
        n: u32,
        seed: u32,
        rounds: u32,
    },
    /// Stores a number to a word.
    Mark { word: u64, number: u32 },
}

/// A launch as the software GPU does it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Launch {
    /// Works for a time, with this share of the GPU.
    Work(Duration, u32, Option<Compute>),
    /// Stores `number` to one word, and holds until another one has reached it. Addresses are the
    /// GPU's.
    Hold {
        held: u64,
        release: u64,
        number: u32,
        bound: Duration,
    },
    /// Makes an error that stays with the context.
    Fault,
}

/// The name without the mangling of C++.
fn plain(name: &str) -> &str {
    let Some(mangled) = name.strip_prefix("_Z") else {
        return name;
    };
    let digits = mangled.bytes().take_while(u8::is_ascii_digit).count();
    let length = mangled[..digits].parse::<usize>().ok();
    length
        .and_then(|length| mangled.get(digits..digits + length))
        .unwrap_or(name)
}

/// Arguments by their place.
struct Arguments<'a>(&'a [Parameter], &'a [u8]);

impl Arguments<'_> {
    fn get(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        let argument = self.0.get(at).and_then(|parameter| {
            let end = parameter.offset + parameter.size;
            self.1.get(parameter.offset..end)
        });
        if let Some(argument) = argument {
            let size = argument.len().min(bytes.len());
            bytes[..size].copy_from_slice(&argument[..size]);
        }
        u64::from_le_bytes(bytes)
    }

    fn word(&self, at: usize) -> u32 {
        self.get(at) as u32
    }
}

/// The launch of a kernel; `arguments` are the bytes of its parameters.
pub(crate) fn launch(entry: &Entry, arguments: &[u8], size: Size, costs: &Costs) -> Launch {
    let sizes: Vec<usize> = entry
        .parameters
        .iter()
        .map(|parameter| parameter.size)
        .collect();
    let get = Arguments(&entry.parameters, arguments);
    let share = costs.demand(size);
    match (plain(&entry.name), sizes.as_slice()) {
        ("zernel_holder", [8, 8, 4, 8]) => Launch::Hold {
            held: get.get(0),
            release: get.get(1),
            number: get.word(2),
            bound: Duration::from_nanos(get.get(3)),
        },
        ("zernel_spin", [8]) => Launch::Work(Duration::from_nanos(get.get(0)), share, None),
        ("zernel_fault", []) => Launch::Fault,
        ("vector_add", [8, 8, 8, 4]) => {
            let n = get.word(3);
            let (a, b, c) = (get.get(0), get.get(1), get.get(2));
            let time = costs.streaming(12 * u64::from(n));
            Launch::Work(time, share, Some(Compute::VectorAdd { a, b, c, n }))
        }
        ("saxpy", [4, 4, 8, 8]) => {
            let n = get.word(0);
            let (a, x, y) = (f32::from_bits(get.word(1)), get.get(2), get.get(3));
            let time = costs.streaming(12 * u64::from(n));
            Launch::Work(time, share, Some(Compute::Saxpy { n, a, x, y }))
        }
        ("zernel_mark", [8, 4]) => {
            let (word, number) = (get.get(0), get.word(1));
            let time = costs.arithmetic(1);
            Launch::Work(time, share, Some(Compute::Mark { word, number }))
        }
        // Those of zernel-gputest whose results are compared, with a time that is long enough to be
        // preempted. The scratch is not used.
        (name, [8, 4, 4, 4, 8]) if name.starts_with("zernel_lost_") => {
            let (out, n, seed, rounds) = (get.get(0), get.word(1), get.word(2), get.word(3));
            let time = LOST_ROUND * rounds;
            let compute = Compute::Mac {
                out,
                n,
                seed,
                rounds,
            };
            Launch::Work(time, share, Some(compute))
        }
        ("zernel_mac", [8, 4, 4, 4]) => {
            let (out, n, seed, rounds) = (get.get(0), get.word(1), get.word(2), get.word(3));
            let time = costs.arithmetic(u64::from(n) * u64::from(rounds));
            let compute = Compute::Mac {
                out,
                n,
                seed,
                rounds,
            };
            Launch::Work(time, share, Some(compute))
        }
        _ => Launch::Work(costs.unknown(size), share, None),
    }
}

impl Compute {
    /// Does it. `hold` finds memory of the GPU, by address and length, and keeps it there.
    ///
    /// # Errors
    ///
    /// [`Status::ILLEGAL_ADDRESS`] if memory is not the GPU's. Nothing has changed then.
    pub(crate) fn run(&self, hold: impl Fn(u64, u64) -> Result<Held>) -> Result<()> {
        const FLOAT: u64 = 4;
        let at = |address: u64, n: u32| {
            let length = FLOAT * u64::from(n);
            let is_aligned = address % FLOAT == 0;
            let held = hold(address, length).ok().filter(|_| is_aligned);
            held.ok_or(Status::ILLEGAL_ADDRESS)
        };
        let illegal = |_| Status::ILLEGAL_ADDRESS;
        match *self {
            Self::VectorAdd { n: 0, .. } | Self::Saxpy { n: 0, .. } | Self::Mac { n: 0, .. } => {
                Ok(())
            }
            Self::Mark { word, number } => {
                memory::write(at(word, 1)?.host, &[number]).map_err(illegal)
            }
            Self::VectorAdd { a, b, c, n } => {
                let (a, b, c) = (at(a, n)?, at(b, n)?, at(c, n)?);
                let mut sums: Vec<f32> = memory::read(a.host, n as usize).map_err(illegal)?;
                let others: Vec<f32> = memory::read(b.host, n as usize).map_err(illegal)?;
                sums.iter_mut()
                    .zip(&others)
                    .for_each(|(sum, other)| *sum += other);
                memory::write(c.host, &sums).map_err(illegal)
            }
            Self::Saxpy { n, a, x, y } => {
                let (x, y) = (at(x, n)?, at(y, n)?);
                let factors: Vec<f32> = memory::read(x.host, n as usize).map_err(illegal)?;
                let mut sums: Vec<f32> = memory::read(y.host, n as usize).map_err(illegal)?;
                sums.iter_mut()
                    .zip(&factors)
                    .for_each(|(sum, x)| *sum += a * x);
                memory::write(y.host, &sums).map_err(illegal)
            }
            Self::Mac {
                out,
                n,
                seed,
                rounds,
            } => {
                let out = at(out, n)?;
                let step = |x: u32, _| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let result = |i| (0..rounds).fold(seed.wrapping_add(i), step);
                let results: Vec<u32> = (0..n).map(result).collect();
                memory::write(out.host, &results).map_err(illegal)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::Text;
    use crate::space::{Owner, Space};

    const COSTS: Costs = Costs {
        sms: 100,
        bandwidth: 1_000_000_000_000,
    };

    const ONE: Size = Size {
        blocks: 1,
        threads: 32,
    };

    fn entry(text: &str) -> Entry {
        let text = format!(".version 6.4\n.target sm_70\n.entry {text} {{ }}");
        Text::parse(&text).unwrap().entries.remove(0)
    }

    fn bytes(values: &[u64]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    #[test]
    fn the_holder_is_known_by_name_and_parameters() {
        let list = "(.param .u64 a, .param .u64 b, .param .u32 c, .param .u64 d)";
        let arguments = bytes(&[1, 2, 3, 4]);
        let launched = launch(
            &entry(&format!("zernel_holder{list}")),
            &arguments,
            ONE,
            &COSTS,
        );
        let hold = Launch::Hold {
            held: 1,
            release: 2,
            number: 3,
            bound: Duration::from_nanos(4),
        };
        assert_eq!(launched, hold);
        let other = launch(
            &entry("zernel_holder(.param .u64 a)"),
            &arguments,
            ONE,
            &COSTS,
        );
        assert!(matches!(other, Launch::Work(_, 1, None)));
    }

    #[test]
    fn others_take_a_time() {
        let spin = launch(
            &entry("zernel_spin(.param .u64 a)"),
            &bytes(&[500]),
            ONE,
            &COSTS,
        );
        assert_eq!(spin, Launch::Work(Duration::from_nanos(500), 1, None));
        assert_eq!(
            launch(&entry("zernel_fault"), &[], ONE, &COSTS),
            Launch::Fault
        );
        let list = "(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)";
        let add = entry(&format!("_Z10vector_addPKfS0_Pfi{list}"));
        let launched = launch(&add, &bytes(&[1, 2, 3, 4]), ONE, &COSTS);
        let Launch::Work(
            _,
            _,
            Some(Compute::VectorAdd {
                a: 1, c: 3, n: 4, ..
            }),
        ) = launched
        else {
            panic!("{launched:?}");
        };
    }

    #[test]
    fn names_lose_their_mangling() {
        assert_eq!(plain("_Z5saxpyifPfS_"), "saxpy");
        assert_eq!(plain("_Z99saxpy"), "_Z99saxpy");
        assert_eq!(plain("_Zx"), "_Zx");
        assert_eq!(plain("saxpy"), "saxpy");
    }

    #[test]
    fn results_are_in_memory_of_the_gpu() {
        let mut space = Space::default();
        let owner = Owner {
            context: 16,
            device: 0,
        };
        let range = space.allocate(owner, 64, 1 << 20).unwrap();
        let hold = |address, length| space.hold_at(address, length);
        memory::write(range.host, &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let (a, b, c) = (range.base, range.base + 8, range.base + 16);
        Compute::VectorAdd { a, b, c, n: 2 }.run(hold).unwrap();
        assert_eq!(memory::read::<f32>(range.host + 16, 2).unwrap(), [4.0, 6.0]);
        let (x, y) = (a, c);
        Compute::Saxpy { n: 2, a: 2.0, x, y }.run(hold).unwrap();
        assert_eq!(
            memory::read::<f32>(range.host + 16, 2).unwrap(),
            [6.0, 10.0]
        );
        let mac = |out, n| Compute::Mac {
            out,
            n,
            seed: 7,
            rounds: 1,
        };
        mac(c, 2).run(hold).unwrap();
        let first = 7u32.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let results = memory::read::<u32>(range.host + 16, 2).unwrap();
        assert_eq!(
            (results[0], results[1]),
            (first, first.wrapping_add(1_664_525))
        );
        for (out, n) in [
            (range.host, 1),
            (range.base + 1, 1),
            (range.base, 17),
            (0, 1),
        ] {
            assert_eq!(mac(out, n).run(hold), Err(Status::ILLEGAL_ADDRESS));
        }
        assert_eq!(mac(0, 0).run(hold), Ok(()));
    }
}
