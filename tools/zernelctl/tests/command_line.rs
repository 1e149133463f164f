// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program from outside, on a machine without zernel.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

use assert_cmd::Command;
use libzernel::loader::{Publication, Record};
use predicates::prelude::*;

/// The program, told to use a device that is not there.
fn zernelctl(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zernelctl"));
    command
        .args(["--device", "/nonexistent/zernel"])
        .args(["--sysfs", "/nonexistent/sysfs"])
        .args(args);
    command
}

#[test]
fn help_tells_the_exit_codes() {
    let shown = predicate::str::contains("Exit codes:")
        .and(predicate::str::contains("5    no zernel device"))
        .and(predicate::str::contains("CAP_SYS_NICE"));
    zernelctl(&["--help"]).assert().code(0).stdout(shown);
}

#[test]
fn every_command_has_help() {
    for command in [
        &["status"][..],
        &["stats"],
        &["gpu", "list"],
        &["gpu", "verify"],
        &["tsg", "list"],
        &["class", "set"],
        &["class", "get"],
        &["class", "clear"],
        &["run"],
        &["watch"],
        &["tune", "list"],
        &["tune", "get"],
        &["tune", "set"],
        &["requests"],
        &["track"],
        &["untrack"],
        &["threads"],
        &["phases"],
        &["hint"],
        &["prefetch"],
        &["probe"],
    ] {
        let shown = predicate::str::contains("Usage:").and(predicate::str::contains("--json"));
        zernelctl(&[command, &["--help"]].concat())
            .assert()
            .code(0)
            .stdout(shown);
    }
}

#[test]
fn unsound_command_lines_are_usage_errors() {
    for args in [
        &[][..],
        &["frobnicate"],
        &["class", "set", "lc"],
        &["class", "set", "8", "--pid", "1"],
        &["class", "set", "vip", "--pid", "1"],
        &["class", "set", "lc", "--pid", "1", "--tid", "2"],
        &["class", "get", "--pid", "0"],
        &["class", "get", "--tsg", "-1"],
        &["class", "set", "be", "--pid", "1", "--weight", "0"],
        &["class", "set", "be", "--pid", "1", "--weight", "10001"],
        &["class", "get", "--pid", "1", "--weight", "1"],
        &["class", "set", "be", "--pid", "1", "--level", "be"],
        &["class", "set", "--pid", "1"],
        &["class", "set", "--pid", "1", "--timeslice", "9"],
        &["class", "clear", "speed", "--pid", "1"],
        &["run", "--class", "lc"],
        &["run", "true"],
        &["run", "--class", "lc", "--requests", "maybe", "true"],
        &["run", "--class", "lc", "--requests", "true"],
        &["watch", "--timeout", "never"],
        &["tune", "set", "enabled"],
        &["requests", "--tsg", "1", "--level", "lc"],
        &["requests", "--level", "8"],
        &["requests", "lc"],
        &["track", "--ml"],
        &["track", "--pid", "0"],
        &["untrack"],
        &["untrack", "--ml", "--pid", "1"],
        &["probe", "--library", "/a"],
        &["phases", "--process", "--cgroup"],
        &["phases", "--cgroups", "--cgroup"],
        &["phases", "--cgroups", "--pid", "1"],
        &["track", "--cgroup", "/a", "--pid", "1"],
        &["track", "--cgroup", "/a", "--children"],
        &["phases", "--count", "3"],
        &["phases", "--watch", "0"],
        &["phases", "--watch", "often"],
        &["hint", "--tid", "1", "gpu_compute"],
        &["hint", "--duration", "1", "gpu_compute"],
        &["hint", "--tid", "1", "--duration", "1"],
        &["hint", "--tid", "1", "--duration", "1", "training"],
        &["hint", "--tid", "1", "--duration", "60001", "gpu_compute"],
        &["gpu", "verify", "--only"],
        &["gpu", "verify", "--only", "speed"],
        &["gpu", "verify", "--work", "opencl"],
        &["gpu", "verify", "--list", "--out", "f"],
        &["gpu", "verify", "--list", "--beside-others"],
        &["prefetch"],
        &["prefetch", "--pid", "0"],
        &["prefetch", "--pid", "1", "--file", "/etc/passwd"],
        &["prefetch", "--pid", "1", "--length", "4K"],
        &["prefetch", "--pid", "1", "--offset", "4K"],
        &["prefetch", "--pid", "1", "--file", "f", "--length", "0"],
        &["prefetch", "--pid", "1", "--file", "f", "--length", "2G"],
        &["prefetch", "--pid", "1", "--file", "f", "--length", "4k"],
        &["prefetch", "--loader", "--pid", "0"],
        &["prefetch", "--loader", "--count", "3"],
        &["prefetch", "--loader", "--metrics", "--json"],
        &["prefetch", "--pid", "1", "--metrics"],
    ] {
        zernelctl(args)
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::str::is_empty().not());
    }
}

#[test]
fn bad_numbers_are_told_in_a_sentence() {
    for (args, said) in [
        (
            ["class", "get", "--tsg", "0x10"],
            "'0x10' is not a TSG id: it takes a decimal number",
        ),
        (
            ["class", "get", "--pid", "0"],
            "'0' is not a process id: it takes a decimal number from 1",
        ),
        (
            ["requests", "--histogram", "--tsg", "-"],
            "'-' is not a TSG id: it takes a decimal number",
        ),
        (
            ["class", "get", "--tid", "me"],
            "'me' is not a thread id: it takes a decimal number from 1",
        ),
        (
            ["gpu", "verify", "--gpu", "sim:0"],
            "'sim:0' is not a GPU id: it takes a decimal number",
        ),
    ] {
        let said = predicate::str::contains(said);
        zernelctl(&args).assert().code(2).stdout("").stderr(said);
    }
}

#[test]
fn without_a_device_every_command_says_so() {
    for args in [
        &["status"][..],
        &["stats"],
        &["gpu", "list"],
        &["gpu", "verify"],
        &["gpu", "verify", "--only", "slice", "--json"],
        &["tsg", "list", "--level", "be"],
        &["class", "set", "be", "--tsg", "1"],
        &["class", "set", "be", "--tsg", "1", "--weight", "3000"],
        &["class", "get", "--tid", "1"],
        &["class", "set", "--timeslice", "500", "--pid", "1"],
        &[
            "class", "set", "--level", "3", "--weight", "7", "--pid", "1",
        ],
        &["class", "clear", "--cgroup", "/"],
        &["class", "clear", "level", "weight", "--cgroup", "/"],
        &["class", "list"],
        &["run", "--class", "be", "--", "true"],
        &["run", "--class", "be", "--cgroup", "--", "true"],
        &["watch", "--count", "1"],
        &["tune", "list"],
        &["tune", "get", "enabled"],
        &["--json", "status"],
        &["requests"],
        &["requests", "--tsg", "1", "--json"],
        &["requests", "--level", "lc", "--histogram"],
        &["track", "--ml", "--children", "--pid", "1"],
        &["track", "--ml", "--tid", "1"],
        &["prefetch", "--pid", "1", "--count", "3"],
        &["prefetch", "--pid", "1", "--file", "f", "--length", "64M"],
        &["phases"],
        &["phases", "--process", "--pid", "1", "--json"],
        &["phases", "--cgroups", "--json"],
        &["phases", "--cgroup", "--watch", "0.5", "--count", "2"],
        &[
            "hint",
            "--tid",
            "1",
            "--duration",
            "60000",
            "optimizer_step",
        ],
    ] {
        let said = predicate::str::contains("load the module first");
        zernelctl(args).assert().code(5).stdout("").stderr(said);
    }
}

#[test]
fn checks_are_listed_without_a_device() {
    let shown = predicate::str::contains("CHECK       AT MOST  ASKS")
        .and(predicate::str::contains("Together they take "));
    zernelctl(&["gpu", "verify", "--list"])
        .assert()
        .code(0)
        .stdout(shown);
}

#[test]
fn loaders_are_listed_without_a_device() {
    let publication = Publication::new().expect("memory");
    let record = Record {
        number: 5,
        batches: 77,
        ..Record::default()
    };
    publication.write(&record).expect("memory");
    let pid = std::process::id().to_string();
    let run = |more: &[&str]| zernelctl(&[&["prefetch", "--loader"], more].concat()).assert();
    let is_there = predicate::str::contains("PID  COMMAND").and(predicate::str::contains(&pid));
    run(&[]).code(0).stdout(is_there);
    let json = run(&["--pid", &pid, "--json"]).code(0);
    let json: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).expect("JSON");
    assert_eq!(
        (&json[0]["number"], &json[0]["batches"]),
        (&5.into(), &77.into())
    );
    assert_eq!(json[0]["loader"], 1);
    let series = format!("pid=\"{pid}\",loader=\"1\"}} 77");
    run(&["--metrics"])
        .code(0)
        .stdout(predicate::str::contains(series))
        .stdout(predicate::str::ends_with("# EOF\n"));
    drop(publication);
    run(&["--pid", &pid, "--json"]).code(0).stdout("[]\n");
    // No process has a number above this one.
    run(&["--pid", "4194305"])
        .code(3)
        .stdout("")
        .stderr(predicate::str::contains("there is no process 4194305"));
}

#[test]
fn files_of_other_users_are_not_seen() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let program = dir.path().join("zernelctl");
    fs::copy(env!("CARGO_BIN_EXE_zernelctl"), &program).expect("a copy");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let mut command = std::process::Command::new(program);
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    // The first process is root's.
    let output = command
        .args(["prefetch", "--loader", "--pid", "1"])
        .output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("the files of process 1 cannot be seen"),
        "{said}"
    );
}

#[test]
fn another_file_is_not_taken_for_the_device() {
    Command::new(env!("CARGO_BIN_EXE_zernelctl"))
        .args(["--device", "/dev/null", "status"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("this is no zernel device"))
        .stderr(predicate::str::contains("ENOTTY"));
}

#[test]
fn tunables_are_listed_read_and_set() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().to_str().expect("its path is text");
    fs::write(dir.path().join("enabled"), "1\n").expect("a tunable");
    fs::write(dir.path().join("default_class"), "none\n").expect("a tunable");
    let tune = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zernelctl"));
        command.args(["--sysfs", path, "tune"]).args(args);
        command.assert()
    };

    tune(&["list"])
        .code(0)
        .stdout("TUNABLE        VALUE  DEFAULT\ndefault_class  none\nenabled        1\n");
    tune(&["list", "--json"])
        .code(0)
        .stdout("{\n  \"default_class\": \"none\",\n  \"enabled\": \"1\"\n}\n");
    tune(&["get", "enabled"]).code(0).stdout("1\n");
    tune(&["set", "enabled", "0"]).code(0).stdout("0\n");
    assert_eq!(
        fs::read_to_string(dir.path().join("enabled")).expect("it is still there"),
        "0\n"
    );
    // Told where it is another one.
    let tuned = tune(&["list"]).code(0);
    tuned.stdout("TUNABLE        VALUE  DEFAULT\ndefault_class  none\nenabled        0      1\n");
    tune(&["get", "nothing"]).code(3);
    tune(&["set", "../enabled", "1"]).code(3);
}
