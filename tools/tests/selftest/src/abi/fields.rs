// SPDX-License-Identifier: GPL-2.0
//! Fields that a call does not take: unknown flags, kinds and levels, reserved and output fields.

use bytemuck::{bytes_of, Pod};
use libzernel::sys::abi;
use rustix::io::Errno;
use std::os::fd::AsFd;

use super::{call, unchanged, Stage};
use crate::check_eq;
use crate::common::Lab;
use crate::harness::Outcome;

/// Makes a call that must fail and change neither anything nor its structure.
fn refused<T: Pod>(lab: &Lab, number: u32, request: &T, errno: Errno, what: &str) -> Outcome {
    let (result, after) = unchanged(&lab.zernel, || {
        Ok(call(lab.zernel.as_fd(), number, request))
    })?;
    check_eq!(result, Err(errno), "{what}");
    check_eq!(bytes_of(&after) == bytes_of(request), true, "{what} wrote");
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
