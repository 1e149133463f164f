// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program from outside.

use std::fs;

use assert_cmd::Command;
use predicates::prelude::*;

fn replay(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_replay"));
    command.args(args);
    command
}

#[test]
fn help_covers_every_command() {
    for command in [&[][..], &["run"], &["sweep"], &["list"], &["show"]] {
        replay(&[command, &["--help"]].concat())
            .assert()
            .code(0)
            .stdout(predicate::str::contains("Usage:"));
    }
}

#[test]
fn unsound_command_lines_are_told_in_a_sentence() {
    for (args, said) in [
        (&["run"][..], "--workload"),
        (&["run", "--workload", "X"], "neither a built-in workload"),
        (&["run", "--workload", "A", "--policy", "fast"], "fast"),
        (
            &["run", "--workload", "A", "--seconds", "0"],
            "out of range",
        ),
        (
            &["run", "--workload", "A", "--seconds", "-1"],
            "out of range",
        ),
        (
            &["run", "--workload", "A", "--gpu", "b200"],
            "name one of a100",
        ),
        (
            &["run", "--workload", "A", "--predictor", "luck"],
            "name one of fixed",
        ),
        (
            &["run", "--workload", "A", "--discipline", "luck"],
            "name one of fair",
        ),
        (
            &["run", "--workload", "A", "--order", "luck"],
            "name fifo or edf",
        ),
        (
            &["run", "--workload", "A", "--deadlines-us", "5,0"],
            "out of range",
        ),
        (
            &["run", "--workload", "A", "--deadlines-us", "soon"],
            "no deadline",
        ),
        (&["sweep", "everything"], "everything"),
    ] {
        replay(args)
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::str::contains(said));
    }
    replay(&[
        "run",
        "--workload",
        "Y",
        "--policy",
        "reset",
        "--seconds",
        "1",
    ])
    .assert()
    .code(1)
    .stderr(predicate::str::contains("miniweather"))
    .stderr(predicate::str::contains("idempotent: true"));
    replay(&["sweep", "frontier", "--policy", "default", "--seconds", "1"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("choose from gpreempt, zernel"));
}

#[test]
fn a_workload_of_ones_own_is_replayed_into_a_table_json_and_plots() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| {
        let path = dir.path().join(name);
        path.to_str().expect("its path is text").to_owned()
    };
    let shown = replay(&["show", "B1"]).output().expect("it runs").stdout;
    let text = String::from_utf8(shown).expect("text");
    fs::write(path("mine"), text.replace("name: B1", "name: mine")).expect("a file");
    let (mine, json) = (path("mine"), path("mine.json"));
    let args = [
        "run",
        "--workload",
        &mine,
        "--policy",
        "exclusive,zernel",
        "--seconds",
        "2",
        "--json",
        &json,
        "--plots",
        &path("plots"),
    ];
    let first = replay(&args).output().expect("it runs").stdout;
    assert_eq!(first, replay(&args).output().expect("it runs").stdout);
    let text = fs::read_to_string(&json).expect("a file");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let rows = value["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["lc"]["p50_ns"], 2_490_000);
    assert_eq!(rows[1]["policy"], "zernel");
    for name in ["plots/frontier-mine.svg", "plots/latency-mine.svg"] {
        let text = fs::read_to_string(path(name)).expect("a plot");
        assert!(text.starts_with("<svg "));
    }
}

#[test]
fn a_file_that_is_no_workload_points_to_this_programs_help() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("empty");
    fs::write(&path, "").expect("a file");
    let path = path.to_str().expect("its path is text");
    replay(&["run", "--workload", path])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("see replay show B1"))
        .stderr(predicate::str::contains("zernel-load").not());
}

#[test]
fn every_sweep_has_a_table_and_a_plot() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for kind in ["prep", "rate", "be-rate", "be-load", "error", "frontier"] {
        let path = dir.path().to_str().expect("its path is text");
        replay(&["sweep", kind, "--seconds", "1", "--plots", path])
            .assert()
            .code(0)
            .stdout(predicate::str::contains(format!("{kind}.svg")));
    }
}

#[test]
fn every_built_in_workload_is_listed() {
    let list = replay(&["list"]).assert().code(0);
    let text = String::from_utf8_lossy(&list.get_output().stdout).into_owned();
    assert_eq!(text.lines().count(), 21);
    assert!(text.contains("J-step"));
}
