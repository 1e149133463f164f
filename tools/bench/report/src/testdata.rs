// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up outcomes for tests of tables and plots.

use libzernel::phase::Prefetch;
use libzernel::sim::{Activity, GpuInfo};
use libzernel::Timestamp;
use zernel_train::{Agreement, Does, EngineUse as Used, Run, Section, Span as Time, Told};
use zernel_workload::{Deployment, Role, Workload};

use crate::outcome::{ClientOutcome, Comparison, EngineUse, Mode, Outcome, Span, TraceWindow};
use crate::queues::{self, Compared, Setting, Way};
use crate::requests::Requests;
use crate::stats::{Buckets, Latencies};
use crate::training::{Figures, Lengths, Plan, Trained, Training};

/// All runs of a built-in workload.
pub(crate) fn comparison(name: &str) -> Comparison {
    Comparison {
        workload: name.to_owned(),
        runs: Mode::ALL.map(|mode| outcome(name, mode)).to_vec(),
    }
}

/// A run whose latencies grow evenly from those alone.
pub(crate) fn outcome(name: &str, mode: Mode) -> Outcome {
    let workload = Workload::built_in(name).expect("a built-in workload");
    let added_us = match mode {
        Mode::Alone => 1,
        Mode::Default => 3_000,
        Mode::Classes => 400,
        Mode::Gpreempt => 300,
        Mode::Zernel => 200,
    };
    let clients = workload
        .clients
        .into_iter()
        .filter(|spec| mode != Mode::Alone || spec.role == Role::Lc)
        .map(|spec| {
            let alone = spec.latency_alone().as_nanos() as u64;
            let count = 300u64;
            let step = workload.seconds * 1e9 / count as f64;
            let requests = Requests {
                dropped: 3,
                due: 0,
                missed: 0,
                number: (0..count).collect(),
                start_ns: (0..count).map(|i| (i as f64 * step) as u64).collect(),
                queued_ns: vec![0; count as usize],
                latency_ns: (0..count)
                    .map(|i| alone + added_us * 1_000 * i / count)
                    .collect(),
            };
            let histogram = Latencies::new(requests.iter().map(|one| one.latency())).buckets();
            ClientOutcome {
                spec,
                timeslice_us: 1024,
                requests,
                histogram: Buckets { ..histogram },
                stamps: Vec::new(),
            }
        })
        .collect::<Vec<_>>();
    let trace = trace(clients.len());
    Outcome {
        workload: name.to_owned(),
        mode,
        setting: None,
        deployment: Deployment::PerClient,
        seconds: workload.seconds,
        gpu: gpu(),
        engine: EngineUse {
            busy_ns: 700,
            switch_ns: 50,
            idle_ns: 250,
            switches: 2,
        },
        processes: Vec::new(),
        clients,
        trace,
    }
}

fn gpu() -> GpuInfo {
    GpuInfo {
        gpu: 0,
        preset: "A100".to_owned(),
        copy_engines: 3,
        sms: 108,
        max_tsgs: 4096,
        tsgs: 0,
        default_timeslice_us: 1024,
        suspended: false,
        context_bytes: 44_300_000,
        bandwidth: 1_100_000_000_000,
        save_ns: 40_000,
        restore_ns: 40_000,
        copy_switch_ns: 0,
        preempt_op_ns: 0,
        enable_op_ns: 0,
        slice_op_ns: 0,
    }
}

fn trace(clients: usize) -> TraceWindow {
    let (start_ns, end_ns) = (1_000_000_000, 1_040_000_000);
    let mut spans = Vec::new();
    let mut now = start_ns;
    for turn in 0.. {
        for (client, activity, ns) in [
            (Some(turn % clients), Activity::Restore, 40_000),
            (Some(turn % clients), Activity::Run, 1_024_000),
            (Some(turn % clients), Activity::Save, 40_000),
            (None, Activity::Idle, 100_000),
        ] {
            if now >= end_ns {
                return TraceWindow {
                    start_ns,
                    end_ns,
                    spans,
                    dropped: 0,
                };
            }
            spans.push(Span {
                start_ns: now,
                end_ns: (now + ns).min(end_ns),
                client,
                activity,
            });
            now += ns;
        }
    }
    unreachable!("the loop ends at the end of the window")
}

/// A loop of 80 and 100 ms without the signal and with it, told 2 ms late, however long it is to be.
pub(crate) fn training(plan: Plan) -> Training {
    Training {
        plan,
        runs: vec![trained(false), trained(true)],
    }
}

fn trained(signal: bool) -> Trained {
    const MS: u64 = 1_000_000;
    let steps = 8;
    let mut now = 1_000 * MS;
    let mut sections = Vec::new();
    let (mut loads, mut computations, mut signals) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..steps {
        let hidden = signal && step > 0;
        let parts = [
            (Does::Load, if hidden { 0 } else { 80 }),
            (Does::Compute, 100),
            (Does::Optimize, 4),
        ];
        for (does, ms) in parts {
            let span = Time {
                began: Timestamp::from_ns(now),
                ended: Timestamp::from_ns(now + ms * MS),
            };
            now += ms * MS;
            let does = match (does, signal) {
                (Does::Load, true) => Does::Wait,
                _ => does,
            };
            match does {
                Does::Compute => {
                    computations.push(span);
                    signals.push(Timestamp::from_ns(now - 82 * MS));
                    if signal {
                        loads.push(Time {
                            began: Timestamp::from_ns(now - 82 * MS),
                            ended: Timestamp::from_ns(now - 2 * MS),
                        });
                    }
                }
                Does::Load => loads.push(span),
                Does::Wait | Does::Optimize => {}
            }
            if ms > 0 {
                sections.push(Section { step, does, span });
            }
        }
    }
    let late = |at: Timestamp| Timestamp::from_ns(at.as_ns() + 2 * MS);
    let told: Vec<_> = sections
        .iter()
        .map(|section| Told {
            phase: section.does.phase(),
            span: Time {
                began: late(section.span.began),
                ended: late(section.span.ended),
            },
        })
        .collect();
    let run = Run {
        whole: Time {
            began: Timestamp::from_ns(1_000 * MS),
            ended: Timestamp::from_ns(now),
        },
        engine: Used {
            busy_ns: steps as u64 * 100 * MS,
            switch_ns: 0,
            idle_ns: (steps as u64 - 1) * if signal { 4 } else { 84 } * MS,
        },
        signalled: if signal { steps - 1 } else { 0 },
        sections,
        loads,
        computations,
    };
    let agreement = Agreement::of(&run.sections, &told, std::time::Duration::from_millis(1));
    let prefetch = Prefetch {
        signals: steps as u64,
        ..Prefetch::default()
    };
    Trained {
        signal,
        figures: Figures::of(&run, agreement, 0, &prefetch),
        run,
        told,
        signals,
    }
}

/// Loops with all ways of loading: a queue is as fast as the signal, and holds as many batches as it is
/// deep.
pub(crate) fn queues(jobs: usize) -> Compared {
    let row = |way| {
        let (steps_per_s, held) = match way {
            Way::Sequence => (9.0, 1.0),
            Way::Signal => (15.0, 2.0),
            Way::Queue(queue) => (15.2, queue.depth() as f64 + 1.0),
        };
        let level = |max: f64| queues::Level {
            mean: max / 2.0,
            max,
        };
        let figures = queues::Figures {
            steps: 100,
            steps_per_s,
            gpu_idle_percent: 3.0,
            first_ms: 44.0,
            held: level(held),
            reading: level(1.0),
            read_ms: level(44.0),
            age_ms: level(64.0 * (held - 1.0)),
        };
        queues::Row { way, figures }
    };
    Compared {
        setting: Setting {
            plan: Plan::FIXED,
            jobs,
            at_once: 1,
        },
        rows: Way::all().map(row).collect(),
    }
}

/// Loops of all kinds: one, several, one of random times, and one whose loads are long.
pub(crate) fn all_queues() -> Vec<Compared> {
    let mut all = [1, 3, 1, 1].map(queues);
    all[2].setting.plan = Plan::RANDOM;
    all[3].setting.plan.lengths = Lengths::Fixed {
        load_ms: 2,
        compute_ms: 1,
    };
    all.to_vec()
}
