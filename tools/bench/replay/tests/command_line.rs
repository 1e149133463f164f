// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program from outside.

use std::fs;
use std::sync::Arc;

use assert_cmd::Command;
use parquet::data_type::{DoubleType, Int64Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
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
            "name fifo, edf or edf-preemptive",
        ),
        (
            &["run", "--workload", "A", "--deadlines-us", "5,0"],
            "out of range",
        ),
        (
            &["run", "--workload", "A", "--deadlines-us", "soon"],
            "no deadline",
        ),
        (
            &["run", "--workload", "A", "--slices", "thin"],
            "name one of table, exponential, pid",
        ),
        (
            &["run", "--workload", "A", "--slack-credit-us", "10000001"],
            "10000001",
        ),
        (
            &["run", "--workload", "A", "--slack-quantum-us", "499"],
            "499",
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
fn a_sweep_with_arrivals_at_random_names_the_client_that_has_none() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| dir.path().join(name);
    fs::write(path("a.csv"), "time_s,size\n0,5\n0.5,7\n").expect("a file");
    let head = "name: mine\nseconds: 1\nclients:\n  - {role: be, network: bert, arrival: ";
    let sized = "\n  - {role: lc, network: {name: llm, service_us: 90, us_per_size: 1}, \
                 arrival: {trace: {file: a.csv}}}\n";
    let rate = "{poisson: 9}}";
    for (kind, text, said) in [
        (
            "be-load",
            format!("{head}closed}}"),
            "bert is a best-effort client in a closed loop",
        ),
        (
            "be-rate",
            format!("{head}closed}}"),
            "bert is a best-effort client in a closed loop",
        ),
        (
            "rate",
            format!("{head}closed}}{sized}"),
            "llm counts the size",
        ),
        (
            "be-load",
            format!("{head}{rate}{sized}"),
            "llm counts the size",
        ),
    ] {
        fs::write(path("mine.yaml"), text).expect("a file");
        let file = path("mine.yaml");
        let file = file.to_str().expect("its path is text");
        replay(&["sweep", kind, "--workload", file])
            .assert()
            .code(1)
            .stderr(predicate::str::contains(said))
            .stderr(predicate::str::contains(format!(
                "sweep {kind} of workload mine"
            )));
    }
}

/// A file of these arrivals, in seconds, with a request of five units of size each.
fn parquet(times: &[f64]) -> Vec<u8> {
    let schema = "message trace { required double time_s; required int64 size; }";
    let schema = parse_message_type(schema).expect("a schema");
    let properties = Default::default();
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))
        .expect("a file");
    let mut group = file.next_row_group().expect("a row group");
    let mut column = group.next_column().expect("a column").expect("the first");
    let times = column.typed::<DoubleType>().write_batch(times, None, None);
    let count = times.expect("the times");
    column.close().expect("the first");
    let mut column = group.next_column().expect("a column").expect("the second");
    let sizes = vec![5; count];
    let sizes = column.typed::<Int64Type>().write_batch(&sizes, None, None);
    sizes.expect("the sizes");
    column.close().expect("the second");
    group.close().expect("a row group");
    file.into_inner().expect("a file")
}

#[test]
fn a_trace_in_parquet_is_one_in_csv() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| dir.path().join(name);
    fs::write(path("a.csv"), "time_s,size\n0.25,5\n0.5,5\n0.75,5\n").expect("a file");
    fs::write(path("a.parquet"), parquet(&[0.25, 0.5, 0.75])).expect("a file");
    fs::write(path("part.parquet"), &parquet(&[0.25])[..40]).expect("a file");
    let run = |trace: &str| {
        let text = format!(
            "name: mine\nseconds: 1\nclients:\n  - {{role: be, network: bert, arrival: closed}}\n  \
             - {{role: lc, network: {{name: llm, service_us: 90, us_per_size: 100}}, arrival: \
             {{trace: {{file: {trace}}}}}}}\n"
        );
        fs::write(path("mine.yaml"), text).expect("a file");
        let file = path("mine.yaml");
        let file = file.to_str().expect("its path is text");
        replay(&["run", "--workload", file, "--policy", "zernel"]).assert()
    };
    let csv = run("a.csv").success();
    let csv = csv.get_output().stdout.clone();
    assert!(String::from_utf8_lossy(&csv).contains("mine"));
    run("a.parquet").success().stdout(csv);
    run("part.parquet")
        .code(1)
        .stdout("")
        .stderr(predicate::str::contains(
            "part.parquet: is Parquet that cannot be read",
        ));
}

#[test]
fn the_bound_has_no_parameter_and_a_policy_names_its_gpu() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("a.json");
    let path = path.to_str().expect("its path is text");
    let rows = |args: &[&str]| {
        replay(&[args, &["--seconds", "1", "--json", path]].concat())
            .assert()
            .code(0);
        let text = fs::read_to_string(path).expect("a file");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        value["rows"].as_array().expect("rows").clone()
    };
    for kind in ["error", "frontier"] {
        let rows = rows(&["sweep", kind, "--policy", "bound"]);
        assert_eq!(rows.len(), 1, "{kind}");
        assert!(rows[0]["parameter"].is_null(), "{kind}");
    }
    let policies = "bound,suspend-40,suspend-5000";
    let rows = rows(&[
        "run",
        "--workload",
        "B1",
        "--gpu",
        "l4",
        "--policy",
        policies,
    ]);
    let gpus: Vec<_> = rows.iter().map(|row| row["gpu"].as_str()).collect();
    assert_eq!(gpus, [Some("l4"), Some("switch of 40 us"), Some("l4")]);
}

#[test]
fn slices_follow_a_target() {
    let run =
        |more: &[&str]| replay(&[&["run", "--workload", "C", "--seconds", "10"], more].concat());
    for half in [&["--target-us", "3000"][..], &["--no-rotation"]] {
        run(&[&["--slices", "pid"], half].concat())
            .assert()
            .code(1)
            .stderr(predicate::str::contains("needs --target-us"));
    }
    for (bad, told) in [
        (&["--target-us", "3000"][..], "is for --slices pid"),
        (
            &["--slices", "exponential", "--be-slice-us", "101"],
            "100 us at most",
        ),
    ] {
        run(bad)
            .assert()
            .code(1)
            .stderr(predicate::str::contains(told));
    }
    let switches = |more: &[&str]| {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("rows.json");
        let json = path.to_str().expect("its path is text");
        let args = ["--policy", "zernel", "--no-rotation", "--json", json];
        run(&[&args, more].concat()).assert().code(0);
        let text = fs::read_to_string(&path).expect("a file");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let row = &value["rows"][0];
        (row["policy"].to_string(), row["switches"].as_f64())
    };
    let table = switches(&[]);
    let pid = switches(&["--slices", "pid", "--target-us", "6000"]);
    assert!(pid.0.contains("pid"), "{pid:?}");
    assert!(pid.1 < table.1, "{pid:?} {table:?}");
    // The base is the slice that is tuned.
    let short = switches(&[
        "--slices",
        "pid",
        "--target-us",
        "6000",
        "--be-slice-us",
        "100",
    ]);
    assert!(short.1 != pid.1, "{short:?} {pid:?}");
}

#[test]
fn slices_follow_slacks() {
    let switches = |more: &[&str]| {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("rows.json");
        let json = path.to_str().expect("its path is text");
        let run = ["run", "--workload", "D", "--seconds", "2", "--json", json];
        let args = ["--policy", "zernel", "--deadlines-us", "3000,20000"];
        replay(&[&run[..], &args, more].concat()).assert().code(0);
        let text = fs::read_to_string(&path).expect("a file");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let row = &value["rows"][0];
        (
            row["policy"].to_string().contains("slack"),
            row["switches"].as_f64(),
        )
    };
    let (table, slack) = (switches(&[]), switches(&["--slices", "slack"]));
    assert!(!table.0 && slack.0 && table.1.is_some());
    assert!(slack.1 > table.1, "{slack:?} {table:?}");
    // Without a credit it is the table.
    let none = switches(&["--slices", "slack", "--slack-credit-us", "0"]);
    assert_eq!((none.0, none.1), (true, table.1));
    let slow = switches(&["--slices", "slack", "--slack-quantum-us", "10000"]);
    assert!(slow.1 != slack.1, "{slow:?} {slack:?}");
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
    for kind in [
        "prep",
        "rate",
        "be-rate",
        "be-load",
        "error",
        "frontier",
        "deadlines",
        "target",
        "features",
        "sharing",
        "saturation",
    ] {
        let path = dir.path().to_str().expect("its path is text");
        replay(&["sweep", kind, "--seconds", "1", "--plots", path])
            .assert()
            .code(0)
            .stdout(predicate::str::contains(format!("{kind}.svg")));
    }
}

#[test]
fn clients_are_for_sweeps_that_count_them() {
    for kind in ["deadlines", "sharing", "saturation"] {
        replay(&["sweep", kind, "--clients", "2", "--seconds", "1"])
            .assert()
            .code(0);
        replay(&["sweep", kind, "--clients", "17"]).assert().code(2);
    }
    replay(&["sweep", "rate", "--clients", "2"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains(
            "for the sweeps deadlines, sharing",
        ));
    replay(&["sweep", "deadlines", "--workload", "A"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("do not arrive at random"));
}

#[test]
fn every_built_in_workload_is_listed() {
    let list = replay(&["list"]).assert().code(0);
    let text = String::from_utf8_lossy(&list.get_output().stdout).into_owned();
    assert_eq!(text.lines().count(), 21);
    assert!(text.contains("J-step"));
}
