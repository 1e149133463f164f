// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time stamps of a client's requests: its own, those of *begin*'s answer, and the software GPU's.

use libzernel::sim::{Completion, Item};
use libzernel::Timestamp;
use zernel_report::breakdown::{Mark, Stamps};

/// Bits of the tags of items, by which their completions are told apart.
pub mod tag {
    /// The wait for the trigger.
    pub const TRIGGER: u64 = 1 << 0;
    /// The part of the holder that runs before it stores its word.
    pub const TAKEN: u64 = 1 << 1;
    /// The rest of the holder.
    pub const HOLD: u64 = 1 << 2;
    /// The first kernel.
    pub const FIRST: u64 = 1 << 3;
    /// The last kernel.
    pub const LAST: u64 = 1 << 4;
    /// The copy in.
    pub const COPY_IN: u64 = 1 << 5;
    /// The copy out.
    pub const COPY_OUT: u64 = 1 << 6;
}

/// Has the first and the last of the kernels reported.
pub fn report_kernels(kernels: &mut [Item]) {
    let last = kernels.len().saturating_sub(1);
    for (place, item) in kernels.iter_mut().enumerate() {
        let first = if place == 0 { tag::FIRST } else { 0 };
        let tag = first | if place == last { tag::LAST } else { 0 };
        if tag != 0 {
            *item = item.notify().tag(tag);
        }
    }
}

/// The stamps of the request that a client is at, and of those before it.
#[derive(Debug, Default)]
pub struct Stamper {
    now: Stamps,
    all: Vec<Stamps>,
}

impl Stamper {
    /// With room for so many requests.
    pub fn with_room(requests: usize) -> Self {
        // Writing to the memory makes the kernel give it now.
        let mut all = vec![Stamps::new(1, 1, 1); requests];
        all.clear();
        Self {
            all,
            ..Self::default()
        }
    }

    /// A request begins, whose copy in, kernels and copy out take so long alone.
    pub fn begin(&mut self, alone: [std::time::Duration; 3]) {
        let [copy_in, kernels, copy_out] = alone.map(|time| time.as_nanos() as u64);
        self.now = Stamps::new(copy_in, kernels, copy_out);
    }

    /// A moment of the request.
    pub fn set(&mut self, mark: Mark, at: Timestamp) {
        self.now.set(mark, at.as_ns());
    }

    /// Takes what the GPU reported of the request, which is over.
    pub fn end(&mut self, reports: &[Completion]) {
        for report in reports {
            let marks = [
                (tag::TRIGGER, None, Some(Mark::Triggered)),
                (tag::TAKEN, Some(Mark::Taken), None),
                (tag::HOLD, None, Some(Mark::Released)),
                (tag::FIRST, Some(Mark::KernelsBegan), None),
                (tag::LAST, None, Some(Mark::Computed)),
                (tag::COPY_IN, Some(Mark::CopyBegan), Some(Mark::Copied)),
                (tag::COPY_OUT, Some(Mark::OutBegan), Some(Mark::OutCopied)),
            ];
            for (bit, start, end) in marks {
                if report.tag & bit == 0 {
                    continue;
                }
                for (mark, at) in [(start, report.start), (end, report.end)] {
                    if let Some(mark) = mark {
                        self.set(mark, at);
                    }
                }
            }
        }
        self.all.push(self.now);
    }

    /// Forgets the requests so far.
    pub fn clear(&mut self) {
        self.all.clear();
    }

    /// The requests so far.
    pub fn into_all(self) -> Vec<Stamps> {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libzernel::sim::Status;
    use std::time::Duration;

    fn report(tag: u64, start: u64, end: u64) -> Completion {
        Completion {
            context: 1,
            channel: 0,
            seq: 1,
            tag,
            queued: Timestamp::from_ns(1),
            start: Timestamp::from_ns(start),
            end: Timestamp::from_ns(end),
            status: Status::Done,
        }
    }

    #[test]
    fn reports_become_marks() {
        let mut stamper = Stamper::with_room(1);
        stamper.begin([1, 2, 3].map(Duration::from_micros));
        stamper.set(Mark::Start, Timestamp::from_ns(5));
        stamper.end(&[
            report(tag::COPY_IN, 10, 20),
            report(tag::TRIGGER, 11, 12),
            report(tag::TAKEN, 30, 31),
            report(tag::HOLD, 31, 40),
            report(tag::FIRST | tag::LAST, 40, 60),
            report(tag::COPY_OUT, 61, 71),
        ]);
        let all = stamper.into_all();
        assert_eq!(all.len(), 1);
        for (mark, at) in [
            (Mark::Start, 5),
            (Mark::CopyBegan, 10),
            (Mark::Copied, 20),
            (Mark::Triggered, 12),
            (Mark::Taken, 30),
            (Mark::Released, 40),
            (Mark::KernelsBegan, 40),
            (Mark::Computed, 60),
            (Mark::OutBegan, 61),
            (Mark::OutCopied, 71),
            (Mark::Due, 0),
        ] {
            assert_eq!(all[0].at(mark), at, "{mark:?}");
        }
    }

    #[test]
    fn the_first_and_the_last_kernel_report() {
        let work = || Item::work(Duration::from_micros(5));
        let told = |count: usize| {
            let mut kernels = vec![work(); count];
            report_kernels(&mut kernels);
            kernels
        };
        let first = work().notify().tag(tag::FIRST);
        let last = work().notify().tag(tag::LAST);
        let expected = [first, work(), last];
        assert_eq!(format!("{:?}", told(3)), format!("{expected:?}"));
        let only = [work().notify().tag(tag::FIRST | tag::LAST)];
        assert_eq!(format!("{:?}", told(1)), format!("{only:?}"));
        assert!(told(0).is_empty());
    }
}
