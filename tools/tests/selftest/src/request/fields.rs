// SPDX-License-Identifier: GPL-2.0
//! Histograms of requests, and answers that cannot be written.

use std::os::fd::AsFd;

use anyhow::Context as _;
use bytemuck::{bytes_of, Pod, Zeroable};
use libzernel::request::{Of, RequestStats, Slots};
use libzernel::sys::abi;
use libzernel::Zernel;
use rustix::io::Errno;

use super::{far, Client, Ends, Since};
use crate::abi::{call, unchanged};
use crate::check_eq;
use crate::common::Lab;
use crate::harness::Outcome;
use crate::sys::{Area, Wild};

/// Makes a call that must fail and change neither anything nor its structure.
fn refused<T: Pod>(zernel: &Zernel, number: u32, request: &T, errno: Errno, what: &str) -> Outcome {
    let (result, after) = unchanged(zernel, || Ok(call(zernel.as_fd(), number, request)))?;
    check_eq!(result, Err(errno), "{what}");
    check_eq!(bytes_of(&after) == bytes_of(request), true, "{what} wrote");
    Ok(())
}

/// A histogram of a TSG, without its buckets.
fn histogram_of(tsg: u64, kind: u32) -> abi::zernel_histogram {
    abi::zernel_histogram {
        target: abi::zernel_target {
            kind: abi::ZERNEL_TARGET_TSG,
            flags: 0,
            id: tsg,
        },
        kind,
        ..abi::zernel_histogram::zeroed()
    }
}

pub(super) fn histogram_fields() -> Outcome {
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let number = abi::LIBZERNEL_IOC_HISTOGRAM;
    let good = histogram_of(client.tsg.as_u64(), abi::ZERNEL_HISTOGRAM_LATENCY);
    let (result, answer) = call(lab.zernel.as_fd(), number, &good);
    result?;
    check_eq!((answer.count, answer.unit_ns, answer.octave), (800, 32, 32));
    check_eq!(answer.samples + answer.sum_ns + answer.max_ns, 0);
    let target = |kind, id| abi::zernel_target { kind, flags: 0, id };
    let gpu = lab.zernel.gpus().next().context("no GPU")??.id.as_u64();
    let level = lab.zernel.levels().next().context("no level")??;
    let level = target(abi::ZERNEL_TARGET_LEVEL, level.id.as_u64());
    let gpu = target(abi::ZERNEL_TARGET_GPU, gpu);
    let (latency, preemption, switch) = (
        abi::ZERNEL_HISTOGRAM_LATENCY,
        abi::ZERNEL_HISTOGRAM_PREEMPTION,
        abi::ZERNEL_HISTOGRAM_SWITCH,
    );
    // Each kind of target has the kinds that the header names, and no others.
    for (target, kinds) in [
        (good.target, &[latency, preemption][..]),
        (level, &[latency, preemption]),
        (gpu, &[switch]),
        (target(abi::ZERNEL_TARGET_NONE, 0), &[]),
        (
            target(abi::ZERNEL_TARGET_PROCESS, std::process::id().into()),
            &[],
        ),
    ] {
        for kind in [0, latency, preemption, switch, 4, 63, u32::MAX] {
            let request = abi::zernel_histogram {
                target,
                kind,
                ..good
            };
            let (result, _) = call(lab.zernel.as_fd(), number, &request);
            let expected = match kinds.contains(&kind) {
                true => Ok(()),
                false => Err(Errno::INVAL),
            };
            check_eq!(result.map(|_| ()), expected, "{target:?}, kind {kind}");
        }
    }
    let mut bad = vec![abi::zernel_histogram {
        reserved: 1,
        ..good
    }];
    for bit in 0..32 {
        bad.push(abi::zernel_histogram {
            flags: 1 << bit,
            ..good
        });
    }
    for request in &bad {
        let what = format!("a histogram with {request:?}");
        refused(&lab.zernel, number, request, Errno::INVAL, &what)?;
    }
    for tsg in [client.tsg.as_u64() + 1_000_000, 0, u64::MAX] {
        let request = histogram_of(tsg, latency);
        refused(&lab.zernel, number, &request, Errno::NOENT, "no such TSG")?;
    }
    for (of, kind) in [(gpu, switch), (level, latency)] {
        let request = abi::zernel_histogram {
            target: target(of.kind, u64::MAX),
            kind,
            ..good
        };
        refused(&lab.zernel, number, &request, Errno::NOENT, "no such thing")?;
    }
    let none = lab.zernel.request_stats(Of::Tsg(client.tsg))?;
    check_eq!(none.begun, 0, "a TSG without requests");
    check_eq!(none, RequestStats::default());
    Ok(())
}

/// The array of buckets is memory of the caller, or is not asked for.
pub(super) fn buckets_out_of_reach() -> Outcome {
    const BUCKETS: usize = 800;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let number = abi::LIBZERNEL_IOC_HISTOGRAM;
    let mut area = Area::new()?;
    let asked = |buckets, room| abi::zernel_histogram {
        buckets,
        room,
        ..histogram_of(client.tsg.as_u64(), abi::ZERNEL_HISTOGRAM_LATENCY)
    };
    let edge = area.address(Area::PAGE - 8);
    for (buckets, room) in [
        (Wild::Kernel.address(), 1),
        (Wild::NonCanonical.address(), 8),
        (u64::MAX - 7, 1),
        (area.address(Area::PAGE), 1),
        (edge, 2),
        (edge, u32::MAX),
    ] {
        let request = asked(buckets, room);
        let what = format!("{room} buckets to {buckets:#x}");
        refused(&lab.zernel, number, &request, Errno::FAULT, &what)?;
    }
    // As many as there is room for, and nothing beyond.
    for room in [0, 1, 31, 500] {
        area.put(0, &[0xa5; Area::PAGE]);
        let request = asked(area.address(0), room as u32);
        let (result, answer) = call(lab.zernel.as_fd(), number, &request);
        result?;
        check_eq!(answer.filled as usize, room, "buckets written");
        let bytes = area.get(0, Area::PAGE);
        let (written, rest) = bytes.split_at(room * 8);
        check_eq!(written.iter().all(|&byte| byte == 0), true, "buckets");
        check_eq!(rest.iter().all(|&byte| byte == 0xa5), true, "behind {room}");
    }
    let mut buckets = vec![u64::MAX; BUCKETS + 1];
    let mut raw = asked(0, 0);
    let filled = libzernel::sys::zernel::histogram(lab.zernel.as_fd(), &mut raw, &mut buckets)?;
    check_eq!(filled, BUCKETS, "all buckets");
    check_eq!(buckets[BUCKETS], u64::MAX, "behind them");
    let (result, answer) = call(lab.zernel.as_fd(), number, &asked(0, 7));
    result?;
    check_eq!(answer.filled, 0, "no buckets were asked for");
    Ok(())
}

/// An action whose answer cannot be written does not happen.
pub(super) fn no_answer_no_effect() -> Outcome {
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slots = Slots::map(&lab.zernel, 0..64)?;
    let since = Since::now(&lab.zernel)?;
    let slot = super::slot(&slots, 0);
    let request = slot.begin(&far(client.tsg))?.number;
    let begin = abi::zernel_request_begin {
        tsg: client.tsg.as_u64(),
        key: super::new_key(),
        ..abi::zernel_request_begin::zeroed()
    };
    let mut area = Area::new()?;
    area.put(0, bytes_of(&begin));
    area.freeze()?;
    for _ in 0..3 {
        let answer = area.ioctl(lab.zernel.as_fd(), abi::LIBZERNEL_IOC_REQUEST_BEGIN, 0);
        check_eq!(answer, Err(Errno::FAULT), "begin");
    }
    since.expect(Ends {
        in_flight: 1,
        ..Ends::NONE
    })?;
    slot.cancel(request)?;
    let next = slot.begin(&far(client.tsg))?.number;
    check_eq!(next, request.next(), "no number was used");
    slot.cancel(next)?;
    Ok(())
}
