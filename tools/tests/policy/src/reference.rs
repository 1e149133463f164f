// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published reference figures as literals, each with its source. A change of the policy that moves
//! one of them fails here; no constant of the policy is used as an expectation.
//!
//! Sources:
//!
//! * *phases*: the published phase detector and its tests, as Documentation/phases.rst has them:
//!   thresholds of 30, 10 and 80 percent and 5 ms, the order of the rules, three equal samples;
//! * *prefetch*: the published predictor and its tests: an exponential moving average with α = 0.3,
//!   the condition elapsed + lead ≥ predicted, overlap = (compute + lead) / loading;
//! * *GPreempt*: USENIX ATC'25, BE slices of 200 µs and LC slices of 5 s on an A100.

use crate::policy::level::Level;
use crate::policy::phase::account::{Account, Times};
use crate::policy::phase::detector::Detector;
use crate::policy::phase::{Phase, Sample, Thresholds};
use crate::policy::predict::ema::Ema;
use crate::policy::predict::{Costs, Predictor as _};
use crate::policy::prefetch::{Kind, Params, Prefetch, Sums};
use crate::policy::units::{Ns, Permille, Us};

const fn ms(ms: u64) -> Ns {
    Ns(ms * 1_000_000)
}

/// A machine-learning task that waits for I/O and whose GPU is busy for these shares, in percent.
const fn percent(io_wait: u32, gpu: u32) -> Sample {
    Sample {
        is_ml: true,
        io_wait: Permille(10 * io_wait),
        gpu: Permille(10 * gpu),
        burst: Ns(0),
        synced: false,
        collective: false,
        futex_wait: Ns(0),
    }
}

fn told(sample: Sample) -> Phase {
    Phase::of(&sample, &Thresholds::new())
}

/// Source: phases, thresholds. 30 % of waiting for I/O, 10 % and 80 % of the GPU, all exclusive.
#[test]
fn shares_are_compared_with_30_10_and_80_percent() {
    for (io_wait, gpu, phase) in [
        (31, 9, Phase::DataLoading),
        (30, 9, Phase::Unknown),
        (31, 10, Phase::Unknown),
        (0, 81, Phase::GpuCompute),
        (0, 80, Phase::Unknown),
        (40, 5, Phase::DataLoading),
        (5, 90, Phase::GpuCompute),
    ] {
        assert_eq!(told(percent(io_wait, gpu)), phase, "{io_wait} % {gpu} %");
    }
}

/// Source: phases, rule 5. Loading beside computation: half of 30 %, and a GPU between 10 and 80 %.
#[test]
fn loading_beside_computation_takes_15_percent() {
    for (io_wait, gpu, phase) in [
        (16, 50, Phase::DataLoading),
        (15, 50, Phase::Unknown),
        (16, 10, Phase::Unknown),
        (16, 11, Phase::DataLoading),
        (16, 79, Phase::DataLoading),
        (16, 80, Phase::Unknown),
    ] {
        assert_eq!(told(percent(io_wait, gpu)), phase, "{io_wait} % {gpu} %");
    }
}

/// Source: phases, rule 4. A burst of the optimizer is shorter than 5 ms and follows the GPU.
#[test]
fn a_burst_of_the_optimizer_is_shorter_than_5_ms() {
    let burst = |burst, synced| Sample {
        burst,
        synced,
        ..percent(0, 20)
    };
    assert_eq!(told(burst(ms(2), true)), Phase::OptimizerStep);
    assert_eq!(told(burst(Ns(4_999_999), true)), Phase::OptimizerStep);
    assert_eq!(told(burst(Ns(5_000_000), true)), Phase::Unknown);
    assert_eq!(told(burst(ms(2), false)), Phase::Unknown);
}

/// Source: phases, order of the rules: collectives, loading, computing, optimizer, loading beside
/// computation. A sample that several rules fit has the phase of the first.
#[test]
fn the_first_rule_that_fits_counts() {
    let mut collectives = Thresholds::new();
    collectives.set_collectives(true);
    let exchanges = |sample: Sample| Sample {
        collective: true,
        futex_wait: Ns(1),
        ..sample
    };
    // 1 before 2, before 3 and before 5.
    for other in [percent(90, 5), percent(0, 90), percent(20, 50)] {
        let sample = exchanges(other);
        assert_eq!(Phase::of(&sample, &collectives), Phase::Collective);
        // Detection of collectives is off by default.
        assert_eq!(told(sample), told(other));
    }
    // 2 before 4: it loads, in a burst of the optimizer.
    let burst = |sample: Sample| Sample {
        burst: ms(2),
        synced: true,
        ..sample
    };
    assert_eq!(told(burst(percent(90, 5))), Phase::DataLoading);
    // 4 before 5.
    assert_eq!(told(burst(percent(20, 50))), Phase::OptimizerStep);
    // 3 takes a task that is in no burst.
    assert_eq!(told(burst(percent(0, 90))), Phase::OptimizerStep);
    // A task that is none of machine learning has no phase.
    for sample in [percent(90, 5), percent(0, 90), exchanges(percent(0, 0))] {
        let other = Sample {
            is_ml: false,
            ..sample
        };
        assert_eq!(Phase::of(&other, &collectives), Phase::Unknown);
    }
}

/// Source: phases, debouncing. The third equal sample commits; a different one begins anew.
#[test]
fn a_phase_holds_after_three_equal_samples() {
    const LOADS: Sample = percent(90, 5);
    const COMPUTES: Sample = percent(0, 90);
    let mut detector = Detector::new(Ns(0));
    for (at, sample, phase) in [
        (1, LOADS, Phase::Unknown),
        (2, LOADS, Phase::Unknown),
        (3, LOADS, Phase::DataLoading),
        (4, COMPUTES, Phase::DataLoading),
        (5, COMPUTES, Phase::DataLoading),
        (6, LOADS, Phase::DataLoading),
        (7, COMPUTES, Phase::DataLoading),
        (8, COMPUTES, Phase::DataLoading),
        (9, COMPUTES, Phase::GpuCompute),
    ] {
        detector.observe(ms(at), &sample, &Thresholds::new());
        assert_eq!(detector.phase(), phase, "sample {at}");
    }
    assert_eq!(detector.transitions(), 2);
}

/// Source: prefetch, the average of ten phases of 100 ms is 100 ms; α is 0.3.
#[test]
fn the_average_of_ten_phases_of_100_ms_is_100_ms() {
    let mut ema = Ema::new(Permille(300));
    for _ in 0..10 {
        ema.observe(ms(100));
    }
    assert_eq!(ema.predict(Costs::default()), Some(ms(100)));
    // 0.3 × 200 + 0.7 × 100.
    ema.observe(ms(200));
    assert_eq!(ema.predict(Costs::default()), Some(ms(130)));
    assert_eq!(Ema::ALPHA, Permille(300));
}

/// A lead of 10 ms, and everything else as it is by default.
fn with_lead(kind: Kind) -> Params {
    let mut params = Params::new();
    (params.kind, params.lead) = (kind, Some(ms(10)));
    params
}

/// A process that has computed ten times for 100 ms each, and loaded for 50 ms.
fn ten_steps(params: &Params) -> Prefetch {
    let mut prefetch = Prefetch::NEW;
    for step in 0..10 {
        let at = 150 * step;
        prefetch.loaded(ms(at), ms(at + 50), params);
        prefetch.compute_begins(ms(at + 50), params);
        prefetch.compute_ends(ms(at + 150), params);
    }
    prefetch
}

/// Source: prefetch, elapsed + lead ≥ predicted. With 100 ms predicted and a lead of 10 ms it is too
/// soon after 80 ms, and time after 95 ms; 90 ms is the first moment.
#[test]
fn with_a_lead_of_10_ms_the_signal_comes_after_80_and_by_95_ms() {
    for kind in [Kind::Ema, Kind::Quantile] {
        let params = with_lead(kind);
        let begun = || {
            let mut prefetch = ten_steps(&params);
            let due = prefetch.compute_begins(ms(10_000), &params);
            assert_eq!(due, Some(ms(10_090)), "{kind:?}");
            prefetch
        };
        assert!(begun().signal(ms(10_080)).is_none(), "{kind:?}");
        assert!(begun().signal(ms(10_095)).is_some(), "{kind:?}");
        assert!(begun().signal(Ns(10_089_999_999)).is_none(), "{kind:?}");
        assert!(begun().signal(ms(10_090)).is_some(), "{kind:?}");
    }
    // Without a history there is no signal.
    let params = with_lead(Kind::Quantile);
    let mut unknown = Prefetch::NEW;
    assert_eq!(unknown.compute_begins(ms(0), &params), None);
    assert!(unknown.signal(ms(1_000)).is_none());
}

/// Source: prefetch, overlap = (compute + lead) / loading. Ten computations of 100 ms and nine leads
/// of 10 ms, as the first computation has no history: 1,090 ms over ten times the loading.
#[test]
fn overlap_is_compute_and_lead_over_loading() {
    let params = with_lead(Kind::Quantile);
    for (load, per_mille) in [(50, 2_180), (109, 1_000), (200, 545)] {
        let mut prefetch = Prefetch::NEW;
        for step in 0..10 {
            let at = 1_000 * step + load;
            prefetch.loaded(ms(at - load), ms(at), &params);
            prefetch.compute_begins(ms(at), &params);
            assert_eq!(prefetch.signal(ms(at + 90)).is_some(), step > 0);
            prefetch.compute_ends(ms(at + 100), &params);
        }
        let sums = prefetch.times();
        let covers = 1_000 * (sums.compute.0 + sums.lead.0);
        assert_eq!(covers / sums.loading.0, per_mille, "{load} ms");
    }
    assert_eq!(Prefetch::NEW.times(), Sums::default());
}

/// Source: phases, times and fractions: 60 ms of loading and 40 ms of computing are 60 % and 40 %; a
/// fraction of nothing is 0, and the times of all phases sum to the time that was tracked.
#[test]
fn times_and_fractions_of_phases_are_exact() {
    let mut account = Account::new(ms(0));
    account.leave(Phase::DataLoading, ms(60));
    let times = account.at(Phase::GpuCompute, ms(100));
    assert_eq!(times.of(Phase::DataLoading), ms(60));
    assert_eq!(times.of(Phase::GpuCompute), ms(40));
    assert_eq!(times.share(Phase::DataLoading), Permille(600));
    assert_eq!(times.share(Phase::GpuCompute), Permille(400));
    assert_eq!(times.share(Phase::OptimizerStep), Permille(0));
    assert_eq!(times.sum(), ms(100));
    assert_eq!(Times::ZERO.share(Phase::GpuCompute), Permille(0));
}

/// Source: GPreempt, time slices: LC 5 s, BE 200 µs.
#[test]
fn slices_of_lc_and_be_are_5_s_and_200_us() {
    assert_eq!(Level::LC.default_timeslice(), Us(5_000_000));
    assert_eq!(Level::BE.default_timeslice(), Us(200));
}
