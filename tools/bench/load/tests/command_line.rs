// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program from outside, on a machine without the software GPU.

use std::fs;

use assert_cmd::Command;
use predicates::prelude::*;

fn zernel_load(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zernel-load"));
    command.args(args);
    command
}

/// A run of one second with three requests, as `run --out` writes it.
fn outcome(mode: &str, latency_ns: u64) -> serde_json::Value {
    serde_json::json!({
        "workload": "mine",
        "mode": mode,
        "seconds": 1.0,
        "gpu": {
            "gpu": 0, "preset": "a100", "copy_engines": 3, "sms": 108, "max_tsgs": 64, "tsgs": 2,
            "default_timeslice_us": 1024, "suspended": false, "context_bytes": 44_300_000u64,
            "bandwidth": 1_100_000_000_000u64, "save_ns": 40_000, "restore_ns": 40_000,
            "copy_switch_ns": 0, "preempt_op_ns": 0, "enable_op_ns": 0, "slice_op_ns": 0,
        },
        "engine": {"busy_ns": 500, "switch_ns": 100, "idle_ns": 400, "switches": 3},
        "clients": [{
            "spec": {
                "role": "lc", "network": "vgg", "arrival": {"periodic": 3.0}, "prepare_us": 200,
            },
            "timeslice_us": 1024,
            "requests": {
                "dropped": 0,
                "number": [0, 1, 2],
                "start_ns": [0, 300_000_000, 600_000_000],
                "queued_ns": [0, 0, 5_000],
                "latency_ns": [latency_ns, latency_ns, latency_ns],
            },
            "histogram": {"digits": 3, "counts_ns": [[latency_ns, 3]]},
        }],
        "trace": {"start_ns": 0, "end_ns": 0, "spans": [], "dropped": 0},
    })
}

#[test]
fn help_covers_every_command() {
    for command in [
        &[][..],
        &["client"],
        &["run"],
        &["train"],
        &["queues"],
        &["demo"],
        &["suite"],
        &["page"],
        &["report"],
        &["bench"],
    ] {
        zernel_load(&[command, &["--help"]].concat())
            .assert()
            .code(0)
            .stdout(predicate::str::contains("Usage:"));
    }
    zernel_load(&["--help"])
        .assert()
        .stdout(predicate::str::contains("\n  worker ").not())
        .stdout(predicate::str::contains("\n  job ").not());
}

#[test]
fn unsound_command_lines_are_usage_errors() {
    for args in [
        &[][..],
        &["run"],
        &["run", "A", "--mode", "fast"],
        &["run", "A", "--breakdown", "--json"],
        &["run", "A", "--breakdown", "--runtime"],
        &["client", "--network", "alexnet"],
        &["client", "--class", "9"],
        &["client", "--periodic", "10", "--poisson", "10"],
        &["queues", "--scale", "0"],
        &["train", "--steps", "1"],
        &["train", "--load", "0"],
        &["train", "--compute", "20s"],
        &["train", "--optimizer", "1001"],
        &["train", "--random", "--load", "5"],
        &["train", "--seed", "5"],
        &["train", "--prefetch", "--no-prefetch"],
        &["train", "--disk", "--file", "x"],
        &["train", "anything"],
        &["demo"],
        &["suite"],
        &["page"],
        &["page", "x", "--check=all"],
        &["bench", "--repeat", "0"],
    ] {
        zernel_load(args).assert().code(2).stdout("");
    }
}

#[test]
fn unsound_values_are_told_in_a_sentence() {
    for (args, code, said) in [
        (&["client", "--periodic", "0"][..], 2, "out of range"),
        (&["client", "--seconds", "0"], 2, "out of range"),
        (&["client", "--seconds", "-1"], 2, "out of range"),
        (&["client", "--seconds", "nan"], 2, "out of range"),
        (&["client", "--seconds", "long"], 2, "not a number"),
        (
            &["run", "nothing"],
            2,
            "neither a built-in workload (A, B, B0",
        ),
        (&["run", "A", "--seconds", "1e9"], 2, "out of range"),
        (&["demo", "--out", "x", "--scale", "nan"], 2, "out of range"),
        (
            &["train", "--file", "/nonexistent"],
            1,
            "cannot read batches from /nonexistent: No such file",
        ),
        (
            &["train", "--file", "/"],
            1,
            "neither a file nor a block device",
        ),
        (
            &["run", "A", "--breakdown", "--deployment", "published"],
            1,
            "a process for each client",
        ),
        (
            &["run", "A", "--compute"],
            1,
            "name other modes than gpreempt",
        ),
        (&["worker", "{}"], 1, "the order is invalid JSON"),
        (&["job", "{}"], 1, "the order is invalid JSON"),
        (&["queues"], 1, "throttled disk"),
        (&["report", "/nonexistent"], 1, "cannot read /nonexistent"),
    ] {
        zernel_load(args)
            .assert()
            .code(code)
            .stdout("")
            .stderr(predicate::str::contains(said));
    }
}

#[test]
fn a_file_that_is_no_workload_is_named_and_not_printed() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("mine");
    let path = path.to_str().expect("its path is text");
    let run = |text: &str| {
        fs::write(path, text).expect("a file");
        zernel_load(&["run", path]).assert().code(1).stdout("")
    };
    run("any other\ntext\n").stderr(format!(
        "zernel-load: {path} is not a workload; see zernel-load run --help\n"
    ));
    run("name: mine\nseconds: 1\nclient: []\n")
        .stderr(predicate::str::contains("unknown field `client`"));
    let traced = "name: mine\nseconds: 1\nclients:\n  - {role: lc, network: vgg, arrival: {trace: \
                  {file: away.csv}}}\n";
    run(traced).stderr(predicate::str::contains("away.csv: cannot be opened"));
}

#[test]
fn programs_of_cuda_refuse_blocks() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("mine");
    let path = path.to_str().expect("its path is text");
    let text = "name: mine\nseconds: 1\nclients:\n  - role: lc\n    arrival: closed\n    network: \
                {name: own, kernels: [{us: 9, granularity: {block: 3}}]}\n";
    fs::write(path, text).expect("a file");
    zernel_load(&["run", path, "--runtime"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(predicate::str::contains(
            "own has kernels with the granularity block",
        ));
}

#[test]
fn a_folder_of_results_becomes_a_table_json_and_plots() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().to_str().expect("its path is text");
    for (mode, latency) in [
        ("alone", 2_500_000),
        ("default", 5_000_000),
        ("zernel", 2_600_000),
    ] {
        let file = dir.path().join(format!("mine-{mode}.json"));
        fs::write(file, outcome(mode, latency).to_string()).expect("a result");
    }
    // Other files are left alone.
    fs::write(dir.path().join("summary.json"), "{}").expect("another file");

    zernel_load(&["report", path])
        .assert()
        .code(0)
        .stdout(predicate::str::contains(
            "Workload mine · LC vgg 3/s · 1 s on A100",
        ))
        .stdout(predicate::str::contains("2500"))
        .stdout(predicate::str::contains("latency.svg"));
    assert!(dir.path().join("latency.png").exists());

    let output = zernel_load(&["report", path, "--json", "--no-plots"])
        .output()
        .expect("it runs");
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(rows[1]["mode"], "default");
    assert_eq!(rows[1]["lc_added_us"], 2500.0);
    assert_eq!(rows[2]["lc_added_us"], 100.0);
    assert_eq!(rows[0]["gpu_switch_percent"], 10.0);
}

#[test]
fn a_damaged_result_is_named() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::write(dir.path().join("x-alone.json"), "{\"workload\":").expect("a file");
    zernel_load(&["report", dir.path().to_str().expect("its path is text")])
        .assert()
        .code(1)
        .stderr(predicate::str::contains(
            "x-alone.json is not the result of a run",
        ));
}

#[test]
fn a_loop_without_a_device_says_so() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let batches = dir.path().join("batches");
    fs::write(&batches, [0; 8192]).expect("a file");
    zernel_load(&[
        "train",
        "--file",
        batches.to_str().expect("its path is text"),
    ])
    .assert()
    .code(5)
    .stdout("")
    .stderr(predicate::str::contains(
        "/dev/zernel: not there; load the module first (modprobe)",
    ));
}

#[test]
fn what_is_no_training_loop_is_named() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().to_str().expect("its path is text");
    zernel_load(&["report", path])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("holds no results"));
    fs::write(dir.path().join("training.json"), "[{}]").expect("a file");
    zernel_load(&["report", path])
        .assert()
        .code(1)
        .stderr(predicate::str::contains(
            "training.json holds no results of training loops",
        ));
}
