// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of a begin: sizes and fields that are taken, and those that are refused.

use anyhow::Result;
use bytemuck::{bytes_of, Zeroable};
use libzernel::sys::abi;
use rustix::io::Errno;

use super::sizes::refused;
use super::stage::{Call, Stage};
use crate::check_eq;
use crate::harness::Outcome;
use crate::sys;

const SIZE: u32 = abi::ZERNEL_REQUEST_OPTIONS_SIZE_1;
/// Longest structure that zernel reads.
const LONGEST: u32 = 4096;

fn of_size(size: u32) -> abi::zernel_request_options {
    abi::zernel_request_options {
        size,
        ..Zeroable::zeroed()
    }
}

/// A begin with the options at the start of the area.
fn begin(stage: &Stage) -> Result<Vec<u8>> {
    let bytes = stage.good(Call::named("REQUEST_BEGIN"))?;
    let mut begin: abi::zernel_request_begin = bytemuck::pod_read_unaligned(&bytes);
    begin.options = stage.entries.address(0);
    Ok(bytes_of(&begin).to_vec())
}

pub(super) fn options() -> Outcome {
    let mut stage = Stage::new()?;
    taken(&mut stage)?;
    sizes(&mut stage)?;
    fields(&mut stage)
}

/// A longer structure is taken while the rest is zero, and none of it is changed.
fn taken(stage: &mut Stage) -> Outcome {
    for size in [SIZE, SIZE + 8, LONGEST] {
        stage.entries.put(0, &[0; LONGEST as usize]);
        stage.entries.put(0, bytes_of(&of_size(size)));
        let before = stage.entries.get(0, LONGEST as usize);
        let mut bytes = begin(stage)?;
        sys::ioctl_bytes(stage.fd(), Call::named("REQUEST_BEGIN").number, &mut bytes)?;
        let begun: abi::zernel_request_begin = bytemuck::pod_read_unaligned(&bytes);
        check_eq!(begun.request != 0, true, "{size} bytes: {begun:?}");
        check_eq!(stage.entries.get(0, LONGEST as usize), before, "{size}");
    }
    Ok(())
}

fn sizes(stage: &mut Stage) -> Outcome {
    let number = Call::named("REQUEST_BEGIN").number;
    for (size, errno) in [
        (0, Errno::INVAL),
        (4, Errno::INVAL),
        (8, Errno::INVAL),
        (SIZE - 8, Errno::INVAL),
        (SIZE - 1, Errno::INVAL),
        (SIZE + 4, Errno::INVAL),
        (LONGEST + 8, Errno::TOOBIG),
        (u32::MAX, Errno::TOOBIG),
    ] {
        stage.entries.put(0, &[0; LONGEST as usize]);
        stage.entries.put(0, bytes_of(&of_size(size)));
        let what = format!("options of {size} bytes");
        refused(stage, number, &begin(stage)?, errno, &what)?;
    }
    // Something unknown that is not zero, next to what is known and at the end.
    for at in [SIZE, LONGEST - 8, LONGEST - 1] {
        stage.entries.put(0, &[0; LONGEST as usize]);
        stage.entries.put(0, bytes_of(&of_size(LONGEST)));
        stage.entries.put(at as usize, &[1]);
        let what = format!("options with something at {at}");
        refused(stage, number, &begin(stage)?, Errno::TOOBIG, &what)?;
    }
    // Its size is there, the rest is not.
    let at = LONGEST as usize - 8;
    stage.entries.put(at, &SIZE.to_ne_bytes());
    let mut bytes: abi::zernel_request_begin = bytemuck::pod_read_unaligned(&begin(stage)?);
    bytes.options = stage.entries.address(at);
    refused(stage, number, bytes_of(&bytes), Errno::FAULT, "half of it")
}

fn fields(stage: &mut Stage) -> Outcome {
    let number = Call::named("REQUEST_BEGIN").number;
    let good = of_size(SIZE);
    let mut wrong = vec![
        abi::zernel_request_options { flags: 2, ..good },
        abi::zernel_request_options {
            flags: 1 << 31,
            ..good
        },
        abi::zernel_request_options {
            features: 1,
            ..good
        },
        abi::zernel_request_options {
            features: 9,
            ..good
        },
        abi::zernel_request_options {
            reserved: 1,
            ..good
        },
    ];
    for at in 0..abi::ZERNEL_FEATURES_MAX as usize {
        let mut options = good;
        options.feature[at] = 1 << 63;
        wrong.push(options);
    }
    for options in wrong {
        stage.entries.put(0, bytes_of(&options));
        let what = format!("{options:?}");
        refused(stage, number, &begin(stage)?, Errno::INVAL, &what)?;
    }
    if !stage.lab.zernel.info()?.can.admit {
        let flags = abi::ZERNEL_BEGIN_ADMIT;
        stage
            .entries
            .put(0, bytes_of(&abi::zernel_request_options { flags, ..good }));
        refused(stage, number, &begin(stage)?, Errno::OPNOTSUPP, "admission")?;
    }
    Ok(())
}
