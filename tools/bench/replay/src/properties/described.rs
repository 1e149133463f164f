// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads that are described in a file: traces, keys, blocks, published preemption.

use super::*;

/// A workload of one LC client whose file has this description of it, beside BE that always has work.
fn described(client: &str, dir: &std::path::Path) -> Workload {
    let text = format!(
        "
        name: described
        seconds: 1
        clients:
          - {{role: lc, prepare_us: 100, {client}}}
          - {{role: be, network: resnet152, arrival: closed}}
        "
    );
    let path = dir.join("described.yaml");
    std::fs::write(&path, text).unwrap();
    Workload::load(path.to_str().unwrap(), "").unwrap()
}

#[test]
fn a_trace_is_replayed_with_sizes_and_deadlines() {
    let dir = tempfile::tempdir().unwrap();
    // The first is in time unless it waits for BE; the second never is, the third always. The fourth
    // arrives beside another that takes its place, and the last after the run.
    let rows = "time_s,key,size,deadline_us\n0.1,1,10,700\n0.2,2,1000,1000\n0.3,1,20,50000\n\
                0.4,1,20,900\n0.4001,1,20,900\n0.4002,1,20,50000\n9,1,1,5\n";
    std::fs::write(dir.path().join("a.csv"), rows).unwrap();
    let client = "network: {name: llm, kernels: [{us: 300, us_per_size: 1}, {us: 50, times: 2}]}, \
                  arrival: {trace: {file: a.csv}}, copy_in: {bytes_per_size: 25000}";
    let workload = described(client, dir.path());
    let alone = run(&workload, Name::Exclusive, Deployment::PerClient);
    let served = &alone.served[0].requests;
    // 100 to prepare, 80 and 10 to copy, 400 of kernels; 2 for each unit.
    let restores = Setting::DEFAULT.preset.switch_cost().0 + 1_000;
    let expected = [610_000 + restores, 2_590_000, 630_000, 630_000, 630_000];
    assert_eq!(served.latency_ns, expected);
    assert_eq!((served.due, served.missed), (6, 2));
    for policy in ALL.into_iter().filter(|&policy| policy != Name::Reset) {
        let outcome = run(&workload, policy, Deployment::PerClient);
        assert_eq!(outcome.requests(Role::Lc), 5, "{policy:?}");
        let missed = match policy {
            Name::Classes | Name::Suspend100 | Name::Suspend140 => 3,
            Name::Default | Name::Sequential | Name::Block | Name::Suspend5000 => 4,
            _ => 2,
        };
        let found = outcome.deadlines(Role::Lc);
        assert_eq!((found.due, found.missed), (6, missed), "{policy:?}");
    }
}

#[test]
fn zernel_has_a_history_for_each_key() {
    // Preparations alternate between two times, each of which has a key.
    let dir = tempfile::tempdir().unwrap();
    let mut rows = ["time_s,key\n", "time_s\n"].map(String::from);
    for number in 0..1_000 {
        let time = f64::from(number) * 0.01;
        rows[0] += &format!("{time},{}\n", number % 2);
        rows[1] += &format!("{time}\n");
    }
    let held = rows.map(|rows| {
        std::fs::write(dir.path().join("a.csv"), rows).unwrap();
        let client = "network: vgg, arrival: {trace: {file: a.csv}}";
        let workload = described(client, dir.path()).lasting(10.0).unwrap();
        // Up and down by the hundredth of a second.
        let preparation = "drift: {from: 100, to: 600, seconds: 0.01}";
        let preparation: Preparation = serde_yaml_ng::from_str(preparation).unwrap();
        let workload = workload.preparing(preparation);
        run(&workload, Name::Zernel, Deployment::PerClient)
            .engine
            .held_ns
    });
    assert!(held[0] * 3 < held[1], "{held:?}");
}

#[test]
fn blocks_keep_the_gpu_to_their_end() {
    let dir = tempfile::tempdir().unwrap();
    let longest = |granularity: &str| {
        let mut workload = described("network: vgg, arrival: {periodic: 90}", dir.path());
        let be = format!("{{name: own, kernels: [{{us: 6000, granularity: {granularity}}}]}}");
        workload.clients[1].network = serde_yaml_ng::from_str(&be).unwrap();
        let alone = run(&workload, Name::Exclusive, Deployment::PerClient);
        let bound = run(&workload, Name::Bound, Deployment::PerClient);
        assert_eq!(Summary::of(&mut bound.added(&alone)).max_ns, 0, "foreseen");
        let outcome = run(&workload, Name::Classes, Deployment::PerClient);
        Summary::of(&mut outcome.latencies(Role::Lc)).max_ns
    };
    let (free, blocks) = (longest("instruction"), longest("{block: 3000}"));
    assert!(blocks > free + 1_000_000, "{free} {blocks}");
    assert!(blocks < free + 3_100_000, "{free} {blocks}");
}

/// Two kernels of a list are the same as one that is there twice: a block ends where its kernel does.
#[test]
fn blocks_end_with_their_kernels() {
    let dir = tempfile::tempdir().unwrap();
    let latencies = [
        "[{us: 3000, granularity: {block: 2000}}, {us: 3000, granularity: {block: 2000}}]",
        "[{us: 3000, times: 2, granularity: {block: 2000}}]",
        "[{us: 6000, granularity: {block: 2000}}]",
    ]
    .map(|kernels| {
        let mut workload = described("network: vgg, arrival: {periodic: 90}", dir.path());
        let be = format!("{{name: own, kernels: {kernels}}}");
        workload.clients[1].network = serde_yaml_ng::from_str(&be).unwrap();
        let outcome = run(&workload, Name::Classes, Deployment::PerClient);
        outcome.sorted_latencies(Role::Lc)
    });
    assert_eq!(latencies[0], latencies[1]);
    assert_ne!(latencies[0], latencies[2]);
}

/// Best-effort work that ends by itself leaves the GPU at once, and the wait for it concerns no later
/// request.
#[test]
fn preemption_waits_for_work_that_is_there() {
    let dir = tempfile::tempdir().unwrap();
    // Data at 10.28 ms and 13.78 ms; best-effort bursts of 0.3 ms from 10.18 ms and of 30 ms from
    // 12.98 ms.
    for (name, rows) in [
        ("a", "time_s\n0.010\n"),
        ("b", "time_s\n0.0135\n"),
        ("c", "time_s,size\n0.0101,300\n0.0129,30000\n"),
    ] {
        std::fs::write(dir.path().join(name), rows).unwrap();
    }
    let text = "
        name: two
        seconds: 1
        clients:
          - {role: lc, network: vgg, arrival: {trace: {file: a}}}
          - {role: lc, network: vgg, arrival: {trace: {file: b}}}
          - role: be
            network: {name: own, service_us: 1, us_per_size: 1}
            arrival: {trace: {file: c}}
            prepare_us: 0
    ";
    let path = dir.path().join("two.yaml");
    std::fs::write(&path, text).unwrap();
    let workload = Workload::load(path.to_str().unwrap(), "").unwrap();
    let outcome = run(&workload, Name::Suspend5000, Deployment::PerClient);
    check(&workload, &outcome);
    let latency = |client: usize| outcome.served[client].requests.latency_ns[0];
    // The GPU restores the context of BE, too, and its copy engine takes a microsecond.
    let switch = Setting::DEFAULT.preset.switch_cost().0;
    let first = 2_490_000 + 201_000 + 1_000 + 3 * switch;
    assert!(latency(0).abs_diff(first) <= 1, "{}", latency(0));
    assert!(latency(1).abs_diff(7_491_000) <= 1, "{}", latency(1));
}

#[test]
fn a_gpu_that_switches_too_slowly_gives_way_to_one_that_does_not() {
    let workload = built_in("B1", 2.0);
    let setting = Setting {
        preset: &Preset::L4,
        ..Setting::DEFAULT
    };
    let alone = sim::run(
        &workload,
        setting,
        Name::Exclusive.policy(&Options::DEFAULT),
    )
    .unwrap();
    assert_eq!(alone.gpu, "l4");
    for (policy, us) in [
        (Name::Suspend40, 40),
        (Name::Suspend100, 100),
        (Name::Suspend140, 140),
        (Name::Suspend5000, 5_000),
    ] {
        let outcome = sim::run(&workload, setting, policy.policy(&Options::DEFAULT)).unwrap();
        let expected = match us * 1_000 < 2 * Preset::L4.switch_cost().0 {
            true => format!("switch of {us} us"),
            false => "l4".to_owned(),
        };
        assert_eq!(outcome.gpu, expected);
        let added = Summary::of(&mut outcome.added(&alone));
        let most = us as i64 * 1_000;
        assert!((added.p99_ns - most).abs() <= 1, "{policy:?}: {added:?}");
        assert!(added.max_ns <= most + 1, "{policy:?}: {added:?}");
    }
}
