// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms: those that each kind of target has, and the room that there is for their buckets.

use std::os::fd::AsFd;

use anyhow::Context as _;
use bytemuck::Zeroable;
use libzernel::request::{Of, RequestStats};
use libzernel::sys::abi;
use libzernel::Target;
use rustix::io::Errno;

use super::lab;
use crate::abi::call;
use crate::check_eq;
use crate::harness::Outcome;
use crate::sys::Area;

/// Each kind of target has the kinds that the header names, and no others; as many buckets are
/// written as there is room for, and nothing beyond.
pub(super) fn histograms() -> Outcome {
    let (lab, client) = lab()?;
    let zernel = lab.zernel.as_fd();
    let number = abi::LIBZERNEL_IOC_HISTOGRAM;
    let target = |kind, id| abi::zernel_target { kind, flags: 0, id };
    let level = lab.zernel.levels().next().context("no level")??;
    let gpu = lab.tsg(client.tsg)?.gpu.as_u64();
    let asked = |target, kind, buckets, room| abi::zernel_histogram {
        target,
        kind,
        buckets,
        room,
        ..Zeroable::zeroed()
    };
    let of_tsg = Target::Tsg(client.tsg).raw();
    // Latencies, preemptions, switches.
    for (target, has) in [
        (of_tsg, [true, true, false]),
        (
            target(abi::ZERNEL_TARGET_LEVEL, level.id.as_u64()),
            [true, true, false],
        ),
        (target(abi::ZERNEL_TARGET_GPU, gpu), [false, false, true]),
    ] {
        for (kind, has) in (abi::ZERNEL_HISTOGRAM_LATENCY..).zip(has) {
            let (result, _) = call(zernel, number, &asked(target, kind, 0, 0));
            let expected = if has { Ok(()) } else { Err(Errno::INVAL) };
            check_eq!(result.map(drop), expected, "{target:?}, kind {kind}");
        }
    }
    let asked = |buckets, room| asked(of_tsg, abi::ZERNEL_HISTOGRAM_LATENCY, buckets, room);
    let mut area = Area::new()?;
    for room in [0, 1, 31, 500] {
        area.put(0, &[0xa5; Area::PAGE]);
        let request = asked(area.address(0), room as u32);
        let (result, answer) = call(zernel, number, &request);
        result?;
        check_eq!((answer.count, answer.unit_ns, answer.octave), (800, 32, 32));
        check_eq!(answer.samples + answer.sum_ns + answer.max_ns, 0);
        check_eq!(answer.filled as usize, room, "buckets written");
        let bytes = area.get(0, Area::PAGE);
        let written = bytes.iter().take_while(|&&byte| byte == 0).count();
        let rest = bytes.iter().skip(written).all(|&byte| byte == 0xa5);
        check_eq!((written, rest), (room * 8, true), "bytes written");
    }
    let mut buckets = vec![u64::MAX; 801];
    let filled = libzernel::sys::zernel::histogram(zernel, &mut asked(0, 0), &mut buckets)?;
    check_eq!((filled, buckets[800]), (800, u64::MAX), "all buckets");
    let (result, answer) = call(zernel, number, &asked(0, 7));
    result?;
    check_eq!(answer.filled, 0, "no buckets were asked for");
    let none = lab.zernel.request_stats(Of::Tsg(client.tsg))?;
    check_eq!(none, RequestStats::default(), "a TSG without requests");
    Ok(())
}
