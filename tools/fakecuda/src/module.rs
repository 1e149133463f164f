// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules: the kernels that a text of PTX has, and those whose cost is known.

use std::time::Duration;

/// A kernel of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// Bytes of each parameter.
    pub(crate) parameters: Vec<usize>,
}

/// A kernel that is launched, as the software GPU runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Launch {
    /// Works for a time.
    Work(Duration),
    /// Stores a number to the first address, and holds until the second has reached it.
    Hold {
        held: u64,
        release: u64,
        number: u32,
        bound: Duration,
    },
    /// Makes an error that stays with the context.
    Fault,
}

/// The time of a kernel that is not known.
const UNKNOWN: Duration = Duration::from_micros(5);

/// The bytes of a type of PTX.
fn size_of_type(text: &str) -> Option<usize> {
    let bits: String = text.chars().filter(char::is_ascii_digit).collect();
    bits.parse::<usize>().ok().map(|bits| bits.div_ceil(8))
}

/// The kernels of a text. `None`: it is no PTX.
pub(crate) fn kernels(text: &str) -> Option<Vec<Kernel>> {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    let text: String = lines.collect::<Vec<_>>().join("\n");
    if !text.contains(".version") || !text.contains(".target") {
        return None;
    }
    let mut kernels = Vec::new();
    for part in text.split(".entry").skip(1) {
        let end = part.find(['(', '{', '\n'])?;
        let name = part[..end].trim().to_owned();
        let rest = part[end..].trim_start();
        let list = rest
            .strip_prefix('(')
            .and_then(|list| list.split(')').next());
        let parameters = list.unwrap_or_default().split(".param").skip(1);
        let sizes = parameters.map(|parameter| {
            let mut words = parameter.split_whitespace();
            words.find_map(|word| word.strip_prefix('.').and_then(size_of_type))
        });
        kernels.push(Kernel {
            name,
            parameters: sizes.collect::<Option<_>>()?,
        });
    }
    Some(kernels)
}

/// The work of a kernel with these values of its parameters.
pub(crate) fn launch(kernel: &Kernel, values: &[u64]) -> Launch {
    match (kernel.name.as_str(), values) {
        ("zernel_holder", &[held, release, number, bound]) => Launch::Hold {
            held,
            release,
            number: number as u32,
            bound: Duration::from_nanos(bound),
        },
        ("zernel_spin", &[ns]) => Launch::Work(Duration::from_nanos(ns)),
        ("zernel_fault", _) => Launch::Fault,
        _ => Launch::Work(UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// .entry no(\n.version 6.4\n.target sm_70\n\
        .visible .entry one(.param .u64 a, .param .u32 b,\n\t.param .align 8 .b64 c)\n{ ret; }\n\
        .entry two\n{ ret; }\n";

    #[test]
    fn kernels_and_parameters_are_found() {
        let found = kernels(TEXT).unwrap();
        let sizes = |at: usize| found[at].parameters.clone();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].name.as_str(), found[1].name.as_str()),
            ("one", "two")
        );
        assert_eq!(sizes(0)[..2], [8, 4]);
        assert_eq!(sizes(1), [0; 0]);
        assert_eq!(kernels("\x7fELF"), None);
    }

    #[test]
    fn known_kernels_do_their_work() {
        let kernel = |name: &str| Kernel {
            name: name.to_owned(),
            parameters: Vec::new(),
        };
        let spin = launch(&kernel("zernel_spin"), &[7_000]);
        assert_eq!(spin, Launch::Work(Duration::from_micros(7)));
        assert_eq!(launch(&kernel("other"), &[1]), Launch::Work(UNKNOWN));
        let hold = launch(&kernel("zernel_holder"), &[16, 32, u64::from(u32::MAX), 9]);
        let expected = Launch::Hold {
            held: 16,
            release: 32,
            number: u32::MAX,
            bound: Duration::from_nanos(9),
        };
        assert_eq!(hold, expected);
        assert_eq!(launch(&kernel("zernel_fault"), &[]), Launch::Fault);
    }
}
