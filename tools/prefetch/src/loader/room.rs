// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for the samples of a batch, by the sizes that its plan tells.

use crate::plan::Plan;
use crate::prefetcher::Sample;
use crate::{Fault, Kind};

/// Bytes of each sample of a batch, and of all.
pub(super) fn sizes(plan: &Plan, samples: &[Sample]) -> Result<(Vec<u64>, u64), Fault> {
    let mut all = 0_u64;
    let bytes = |(at, sample): (usize, &Sample)| {
        let element = plan.element_bytes(at).unwrap_or(0);
        let elements = sample.region.elements();
        let bytes = elements.and_then(|count| count.checked_mul(element));
        let sum = bytes.and_then(|bytes| all.checked_add(bytes));
        let sum = sum.filter(|sum| *sum <= isize::MAX as u64);
        let (Some(bytes), Some(sum)) = (bytes, sum) else {
            return Err(too_large(sample));
        };
        all = sum;
        Ok(bytes)
    };
    let sizes = samples
        .iter()
        .enumerate()
        .map(bytes)
        .collect::<Result<_, _>>()?;
    Ok((sizes, all))
}

fn too_large(sample: &Sample) -> Fault {
    let Sample { array, region } = sample;
    let text = format!(
        "{array}: there is no memory for a box of {:?}",
        region.shape
    );
    Fault::new(Kind::TooLarge, text)
}

/// Room for a sample.
pub(super) fn room(bytes: u64, sample: &Sample) -> Result<Vec<u8>, Fault> {
    let bytes = usize::try_from(bytes).map_err(|_| too_large(sample))?;
    let mut room = Vec::new();
    room.try_reserve_exact(bytes)
        .map_err(|_| too_large(sample))?;
    room.resize(bytes, 0);
    Ok(room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Region;

    #[test]
    fn sizes_have_an_end() {
        let plan = Plan {
            elements: vec![Some(2); 3],
            ..Plan::default()
        };
        let samples = |side: u64, count: usize| -> Vec<_> {
            let region = Region::new(&[0], &[side]);
            let array = "a".into();
            vec![Sample { array, region }; count]
        };
        assert_eq!(sizes(&plan, &samples(3, 3)), Ok((vec![6; 3], 18)));
        let half = 1 << 61;
        assert_eq!(
            sizes(&plan, &samples(half, 1)),
            Ok((vec![1 << 62], 1 << 62))
        );
        for (side, count) in [(half, 2), (1 << 62, 3), (1 << 63, 1)] {
            let fault = sizes(&plan, &samples(side, count)).expect_err("too large");
            assert_eq!(fault.kind(), Kind::TooLarge);
        }
        let one = &samples(1, 1)[0];
        let fault = room(1 << 62, one).expect_err("no memory is so large");
        assert_eq!(fault.kind(), Kind::TooLarge);
        assert_eq!(room(3, one), Ok(vec![0; 3]));
    }
}
