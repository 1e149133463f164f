// SPDX-License-Identifier: GPL-2.0
//! Which run list a TSG is on.
//!
//! The driver keeps the numbers of run lists to itself. But every engine has one run list (on some
//! GPUs a few copy engines share that of the graphics engine), and the engines of a MIG instance
//! are nobody else's; so the instance and the engine, which is numbered anew in each instance,
//! stand for it. TSGs of different MIG instances never share an engine, and must never look as if
//! they did.

/// Numbers of engine types that an instance may have; the driver has less than a hundred.
const ENGINES: u32 = 1 << 16;
/// The value for "not known".
const UNKNOWN: u32 = u32::MAX;

/// The number of a run list, for zernel and for people: the engine type (`NV2080_ENGINE_TYPE_*`)
/// without MIG, and from 65,536 on with it, 65,536 numbers for each instance.
/// [`u32::MAX`] if the engine is not known.
pub(crate) fn number(mig: Option<u32>, engine: Option<u32>) -> u32 {
    let Some(engine) = engine.filter(|&engine| engine < ENGINES) else {
        return UNKNOWN;
    };
    match mig {
        None => engine,
        Some(instance) => instance
            .checked_add(1)
            .and_then(|instance| instance.checked_mul(ENGINES))
            .map_or(UNKNOWN, |first| first | engine),
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_nvidia_runlist)]
mod tests {
    use crate::runlist::*;

    /// `NV2080_ENGINE_TYPE_GR0`.
    const GR0: Option<u32> = Some(1);
    /// `NV2080_ENGINE_TYPE_COPY0`.
    const COPY0: Option<u32> = Some(9);

    #[test]
    fn without_mig_it_is_the_engine() {
        assert_eq!(number(None, GR0), 1);
        assert_eq!(number(None, COPY0), 9);
    }

    #[test]
    fn instances_share_nothing() {
        let mut last = number(None, Some(ENGINES - 1));
        for instance in 0..16 {
            for engine in [0, 1, 9, 0x53, ENGINES - 1] {
                let runlist = number(Some(instance), Some(engine));
                assert!(runlist > last);
                assert!(runlist < UNKNOWN);
                last = runlist;
            }
        }
    }

    #[test]
    fn what_is_not_known_stays_unknown() {
        assert_eq!(number(None, None), UNKNOWN);
        assert_eq!(number(Some(3), None), UNKNOWN);
        assert_eq!(number(None, Some(ENGINES)), UNKNOWN);
        assert_eq!(number(Some(u32::MAX), GR0), UNKNOWN);
        assert_eq!(number(Some(ENGINES - 1), GR0), UNKNOWN);
    }
}
