// SPDX-License-Identifier: GPL-2.0
//! Programs that know an older or newer version of the header.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context as _, Result};
use libzernel::sys::abi;
use rustix::io::Errno;

use super::stage::{Call, Stage, CALLS};
use crate::check_eq;
use crate::harness::Outcome;
use crate::sys;

/// Programs of the recorded headers, and whether they have 32 bits.
const PROGRAMS: [(&str, &[u8], bool); 2] = [
    (
        "v1",
        include_bytes!(concat!(env!("OUT_DIR"), "/v1-64")),
        false,
    ),
    (
        "v1",
        include_bytes!(concat!(env!("OUT_DIR"), "/v1-32")),
        true,
    ),
];

/// `ENOEXEC`.
const NO_EXEC: i32 = 8;

pub(super) fn old_programs() -> Outcome {
    let _stage = Stage::new()?;
    for (version, bytes, is_short) in PROGRAMS {
        let path = std::env::temp_dir().join(format!("zernel-{version}-{}", std::process::id()));
        fs::write(&path, bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        let status = Command::new(&path).status();
        fs::remove_file(&path)?;
        match status {
            Err(error) if is_short && error.raw_os_error() == Some(NO_EXEC) => {
                eprintln!("this kernel runs no 32-bit programs");
            }
            status => {
                let status = status.with_context(|| format!("the program of {version}"))?;
                check_eq!(
                    status.code(),
                    Some(0),
                    "{version}: the step that went wrong"
                );
            }
        }
    }
    Ok(())
}

/// A program with a shorter list entry gets just that, in its own stride; one with a longer entry
/// gets zeroes where the module knows nothing.
pub(super) fn other_versions() -> Outcome {
    let stage = Stage::new()?;
    let known = size_of::<abi::zernel_gpu_info>();
    let entries = |entry_size: usize| -> Result<Vec<u8>> {
        let mut area = vec![0xa5u8; 3 * entry_size];
        let list = abi::zernel_list {
            kind: abi::ZERNEL_LIST_GPUS,
            entries: area.as_mut_ptr() as u64,
            entry_size: entry_size as u32,
            room: 3,
            ..bytemuck::Zeroable::zeroed()
        };
        let (result, list) = super::call(stage.fd(), abi::LIBZERNEL_IOC_LIST, &list);
        result?;
        check_eq!((list.filled, list.entry_known as usize), (2, known));
        check_eq!(
            area[2 * entry_size..].iter().all(|&byte| byte == 0xa5),
            true
        );
        Ok(area)
    };
    let (same, longer) = (entries(known)?, entries(known + 64)?);
    for number in 0..2 {
        let id = |bytes: &[u8], size: usize| bytes[number * size..number * size + 8].to_vec();
        check_eq!(id(&same, known), id(&longer, known + 64));
        let rest = &longer[number * (known + 64) + known..(number + 1) * (known + 64)];
        check_eq!(rest.iter().all(|&byte| byte == 0), true, "unknown part");
    }
    // Longer structures may be used again after an answer, as that has nothing in the unknown part.
    for call in CALLS
        .iter()
        .filter(|call| call.input < call.size && !call.changes)
    {
        let mut bytes = stage.good(call)?;
        bytes.resize(call.size + 16, 0);
        for _ in 0..2 {
            sys::ioctl_bytes(stage.fd(), call.sized(call.size + 16), &mut bytes)
                .context(call.name)?;
        }
    }
    // Header and module agree on the least that is taken.
    for call in &CALLS {
        check_eq!(
            call.first <= call.size && call.first % 8 == 0,
            true,
            "{}",
            call.name
        );
    }
    let mut short = vec![0; 8];
    let number = Call::named("INFO").sized(8);
    let answer = sys::ioctl_bytes(stage.fd(), number, &mut short);
    check_eq!(answer, Err(Errno::INVAL));
    Ok(())
}
