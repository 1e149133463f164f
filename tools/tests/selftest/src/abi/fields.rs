// SPDX-License-Identifier: GPL-2.0
//! Fields that a call does not take: unknown flags, kinds and levels, reserved and output fields.

use anyhow::Context as _;
use bytemuck::{bytes_of, Pod};
use libzernel::sys::abi;
use libzernel::{Level, Target};
use rustix::io::Errno;
use std::os::fd::AsFd;

use super::{call, own_class, unchanged, Stage};
use crate::check_eq;
use crate::common::Lab;
use crate::harness::Outcome;

/// The calls that take a class, and a request that they take.
fn class_calls() -> [(&'static str, u32, abi::zernel_v0_class); 3] {
    [
        ("set", abi::LIBZERNEL_V0_IOC_CLASS_SET, own_class(7)),
        ("get", abi::LIBZERNEL_V0_IOC_CLASS_GET, own_class(0)),
        ("clear", abi::LIBZERNEL_V0_IOC_CLASS_CLEAR, own_class(0)),
    ]
}

/// Makes a call that must fail and change neither anything nor its structure.
fn refused<T: Pod>(lab: &Lab, number: u32, request: &T, errno: Errno, what: &str) -> Outcome {
    let (result, after) = unchanged(&lab.zernel, || {
        Ok(call(lab.zernel.as_fd(), number, request))
    })?;
    check_eq!(result, Err(errno), "{what}");
    check_eq!(bytes_of(&after) == bytes_of(request), true, "{what} wrote");
    Ok(())
}

pub fn class_fields() -> Outcome {
    let lab = Lab::open()?;
    lab.zernel
        .set_class(&Target::current_process(), Level::BE)?;
    for (name, number, good) in class_calls() {
        for bit in 1..32 {
            let flags = 1 << bit;
            let request = abi::zernel_v0_class { flags, ..good };
            refused(
                &lab,
                number,
                &request,
                Errno::INVAL,
                &format!("{name} with flag {bit}"),
            )?;
        }
        let wrong = [
            abi::zernel_v0_class {
                effective: 1,
                ..good
            },
            abi::zernel_v0_class { source: 1, ..good },
            abi::zernel_v0_class {
                timeslice_us: 1,
                ..good
            },
            abi::zernel_v0_class {
                effective: u32::MAX,
                ..good
            },
            abi::zernel_v0_class {
                effective_weight: 1024,
                ..good
            },
        ];
        for (field, request) in wrong.iter().enumerate() {
            refused(
                &lab,
                number,
                request,
                Errno::INVAL,
                &format!("{name} with output {field}"),
            )?;
        }
    }
    Ok(())
}

pub fn class_levels() -> Outcome {
    let lab = Lab::open()?;
    for (name, number, good) in class_calls() {
        let bad: &[u32] = match name {
            "set" => &[8, 9, 255, 256, 0x8000_0000, u32::MAX],
            _ => &[1, 7, 8, u32::MAX],
        };
        for &level in bad {
            let request = abi::zernel_v0_class { level, ..good };
            refused(
                &lab,
                number,
                &request,
                Errno::INVAL,
                &format!("{name} level {level}"),
            )?;
        }
    }
    for level in 0..8 {
        let (result, class) = call(
            lab.zernel.as_fd(),
            abi::LIBZERNEL_V0_IOC_CLASS_SET,
            &own_class(level),
        );
        result.with_context(|| format!("level {level}"))?;
        check_eq!((class.level, class.effective), (level, level));
        check_eq!(class.flags, abi::ZERNEL_V0_CLASS_PRIVILEGED);
        check_eq!(class.source, abi::ZERNEL_V0_TARGET_PROCESS);
    }
    Ok(())
}

pub fn class_weights() -> Outcome {
    let lab = Lab::open()?;
    lab.zernel
        .set_class(&Target::current_process(), Level::BE)?;
    for (name, number, good) in class_calls() {
        let bad: &[u32] = match name {
            "set" => &[10_001, 65_536, 0x8000_0000, u32::MAX],
            _ => &[1, 1024, 10_000, 10_001, u32::MAX],
        };
        for &weight in bad {
            let request = abi::zernel_v0_class { weight, ..good };
            let what = format!("{name} weight {weight}");
            refused(&lab, number, &request, Errno::INVAL, &what)?;
        }
    }
    // 0: the one that the target has.
    for (weight, then) in [(10_000, 10_000), (0, 10_000), (1, 1), (0, 1)] {
        let request = abi::zernel_v0_class {
            weight,
            ..own_class(7)
        };
        let (result, class) = call(
            lab.zernel.as_fd(),
            abi::LIBZERNEL_V0_IOC_CLASS_SET,
            &request,
        );
        result.with_context(|| format!("weight {weight}"))?;
        check_eq!((class.weight, class.effective_weight), (then, then));
    }
    Ok(())
}

pub fn class_targets() -> Outcome {
    let lab = Lab::open()?;
    for (name, number, good) in class_calls() {
        for target in [0, 1, 6, 7, 255, 256, u32::MAX] {
            let request = abi::zernel_v0_class { target, ..good };
            refused(
                &lab,
                number,
                &request,
                Errno::INVAL,
                &format!("{name} target {target}"),
            )?;
        }
        for target in [abi::ZERNEL_V0_TARGET_CGROUP, abi::ZERNEL_V0_TARGET_TSG] {
            let request = abi::zernel_v0_class {
                target,
                flags: abi::ZERNEL_V0_CLASS_PIDFD,
                ..good
            };
            refused(
                &lab,
                number,
                &request,
                Errno::INVAL,
                &format!("{name} pidfd as {target}"),
            )?;
        }
    }
    Ok(())
}

pub fn list_fields() -> Outcome {
    let stage = Stage::new()?;
    let lab = &stage.lab;
    let calls = stage.calls()?;
    for listing in calls.iter().filter(|call| call.name.starts_with("LIST")) {
        let good: abi::zernel_v0_list = bytemuck::pod_read_unaligned(&listing.request);
        // The first version of the entry.
        let first = match listing.name {
            "LIST_THREADS" => 200,
            _ => good.entry_size,
        };
        let short = first - 1;
        let mut wrong = vec![
            abi::zernel_v0_list { count: 0, ..good },
            abi::zernel_v0_list {
                reserved: 1,
                ..good
            },
            abi::zernel_v0_list {
                entry_size: 0,
                ..good
            },
            abi::zernel_v0_list {
                entry_size: short,
                ..good
            },
            abi::zernel_v0_list {
                entry_size: 4097,
                ..good
            },
            abi::zernel_v0_list {
                entry_size: u32::MAX,
                ..good
            },
        ];
        wrong.extend((0..32).map(|bit| abi::zernel_v0_list {
            flags: 1 << bit,
            ..good
        }));
        for (index, request) in wrong.iter().enumerate() {
            let what = format!("{} request {index}", listing.name);
            refused(lab, listing.number, request, Errno::INVAL, &what)?;
        }
        let largest = abi::zernel_v0_list {
            entry_size: 4096,
            count: u32::MAX,
            cursor: u64::MAX,
            ..good
        };
        call(lab.zernel.as_fd(), listing.number, &largest).0?;
    }
    Ok(())
}

/// Fails unless every call on a target with this descriptor answers `EBADF`.
pub fn descriptor_is_bad(lab: &Lab, target: u32, flags: u32, id: u64) -> Outcome {
    for (name, number, good) in class_calls() {
        let request = abi::zernel_v0_class {
            target,
            flags,
            id,
            ..good
        };
        let what = format!("{name} of descriptor {id:#x} as {target}");
        refused(lab, number, &request, Errno::BADF, &what)?;
    }
    Ok(())
}
