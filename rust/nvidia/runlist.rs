// SPDX-License-Identifier: GPL-2.0
//! The run list of a TSG.
//!
//! From Ampere on, the driver tells the address of its registers, for the engine as the client of
//! the TSG sees it. Else the engine stands for it: every engine has one run list (on some GPUs a few
//! copy engines share that of the graphics engine). Engines are numbered anew in each MIG instance,
//! and graphics engines in each compute instance of one. TSGs of different instances never share
//! a graphics engine, and must never look as if they did.

/// Numbers of engine types that an instance may have; the driver has less than a hundred.
const ENGINES: u32 = 1 << 10;
/// Numbers of MIG instances, and of compute instances of one, and one for none.
const INSTANCES: u32 = 1 << 5;
/// Addresses begin here; the registers below are of other parts of the GPU.
const FIRST_BASE: u32 = ENGINES * INSTANCES * INSTANCES;
/// The value for "not known".
const UNKNOWN: u32 = u32::MAX;

/// The engines that belong to a compute instance, of graphics and compute: `NV2080_ENGINE_TYPE_GR`.
const GRAPHICS: core::ops::RangeInclusive<u32> = 1..=8;

/// The first ten copy engines: `NV2080_ENGINE_TYPE_COPY0` to `COPY9`. Those of later drivers have other
/// numbers, and are left alone.
const COPIES: core::ops::RangeInclusive<u32> = 9..=18;

/// True if an engine of this type copies.
pub(crate) fn copies(engine: u32) -> bool {
    COPIES.contains(&engine)
}

/// The place of a TSG, as far as it is known.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    /// Address of the registers of its run list.
    pub(crate) base: Option<u32>,
    /// MIG instance.
    pub(crate) mig: Option<u32>,
    /// Compute instance of that.
    pub(crate) compute: Option<u32>,
    /// Engine type (`NV2080_ENGINE_TYPE_*`).
    pub(crate) engine: Option<u32>,
}

/// The number of a run list, for zernel and for people: the address of its registers, or a smaller
/// number, which without MIG is that of the engine. [`u32::MAX`] if the engine is not known.
pub(crate) fn number(place: Place) -> u32 {
    if let Some(base) = place.base.filter(|&base| base >= FIRST_BASE) {
        return base;
    }
    let Some(engine) = place.engine.filter(|&engine| engine < ENGINES) else {
        return UNKNOWN;
    };
    let compute = place.compute.filter(|_| GRAPHICS.contains(&engine));
    match (part(place.mig), part(compute)) {
        (Some(mig), Some(compute)) => (mig * INSTANCES + compute) * ENGINES + engine,
        _ => UNKNOWN,
    }
}

/// A number for an instance, 0 for none.
fn part(instance: Option<u32>) -> Option<u32> {
    match instance {
        None => Some(0),
        Some(instance) if instance < INSTANCES - 1 => Some(instance + 1),
        Some(_) => None,
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_nvidia_runlist)]
mod tests {
    use crate::runlist::*;

    /// `NV2080_ENGINE_TYPE_GR0`.
    const GR0: u32 = 1;
    /// `NV2080_ENGINE_TYPE_COPY0`.
    const COPY0: u32 = 9;

    fn place(mig: Option<u32>, compute: Option<u32>, engine: u32) -> Place {
        Place {
            base: None,
            mig,
            compute,
            engine: Some(engine),
        }
    }

    #[test]
    fn without_mig_it_is_the_engine() {
        assert_eq!(number(place(None, None, GR0)), 1);
        assert_eq!(number(place(None, None, COPY0)), 9);
    }

    #[test]
    fn the_drivers_word_counts() {
        let told = Place {
            base: Some(0xb8_0000),
            ..place(Some(3), Some(1), GR0)
        };
        assert_eq!(number(told), 0xb8_0000);
        // No address of a run list.
        let low = Place {
            base: Some(FIRST_BASE - 1),
            ..told
        };
        assert_eq!(number(low), number(place(Some(3), Some(1), GR0)));
    }

    #[test]
    fn instances_share_no_graphics_engine() {
        let mut last = number(place(None, None, ENGINES - 1));
        for mig in 0..INSTANCES - 1 {
            for compute in [None, Some(0), Some(INSTANCES - 2)] {
                let mut engines = 0;
                for engine in GRAPHICS {
                    let runlist = number(place(Some(mig), compute, engine));
                    assert!(runlist > last);
                    assert!(runlist < FIRST_BASE);
                    last = runlist;
                    engines += 1;
                }
                assert_eq!(engines, 8);
            }
        }
    }

    #[test]
    fn compute_instances_share_the_other_engines() {
        let whole = number(place(Some(3), None, COPY0));
        assert_eq!(number(place(Some(3), Some(0), COPY0)), whole);
        assert_eq!(number(place(Some(3), Some(1), COPY0)), whole);
        assert!(number(place(Some(4), Some(1), COPY0)) != whole);
    }

    #[test]
    fn the_unknown_stays_unknown() {
        assert_eq!(number(Place::default()), UNKNOWN);
        assert_eq!(number(place(None, None, ENGINES)), UNKNOWN);
        assert_eq!(number(place(Some(INSTANCES - 1), None, GR0)), UNKNOWN);
        assert_eq!(number(place(Some(u32::MAX), None, GR0)), UNKNOWN);
        assert_eq!(number(place(Some(0), Some(INSTANCES - 1), GR0)), UNKNOWN);
    }
}
