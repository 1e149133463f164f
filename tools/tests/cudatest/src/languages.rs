// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runtime in other languages: programs with cases, beside this one, that end with 0 if all is
//! well.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{ensure, Context as _, Result};
use libzernel::tunable::Tunables;
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};

use crate::lab::{lease, with_gdrcopy, LOADED};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "languages",
    &[
        case("example_request_c", || {
            example(
                "zernel-example-request-c",
                &[],
                "100 requests, 0 without a lane\n",
            )
        }),
        case("example_request_cpp", || {
            example("zernel-example-request", &[], "100 requests\n")
        }),
        case("example_graph_c", || {
            example(
                "zernel-example-graph-c",
                &[],
                "100 requests, 0 without a lane\n",
            )
        }),
        case("example_graph_cpp", || {
            example("zernel-example-graph", &[], "100 requests\n")
        }),
        case("example_server_cpp", example_server),
        case("example_readme_cpp", || {
            example("zernel-example-readme1", &[], "42\n")
        }),
        case("c_requests", || c("requests")),
        case("c_gpu_word", || {
            with_gdrcopy(|| run("zernel-test-c", &["gpu_word"]))
        }),
        case("cpp_gpu_word", || {
            with_gdrcopy(|| run("zernel-test-cpp", &["gpu_word"]))
        }),
        case("c_bad_input", || c("bad_input")),
        case("c_not_admitted", || c("not_admitted")),
        case("c_admitted", || in_order(|| c("admitted"))),
        case("cpp_admitted", || in_order(|| cpp("admitted"))),
        case("c_two_runtimes", || c("two_runtimes")),
        case("c_fork", || c("fork")),
        case("c_hostile_words", || c("hostile_words")),
        case("c_inert", || c("inert")),
        case("c_page_unmapped", || c("page_unmapped")),
        case("c_classes", || c("classes")),
        case("c_wants", || c("wants")),
        case("c_sizes", || c("sizes")),
        case("c_graphs", || c("graphs")),
        case("c_graph_ends", || c("graph_ends")),
        case("c_graph_bad_input", || c("graph_bad_input")),
        case("cpp_requests", || cpp("requests")),
        case("cpp_lifetimes", || cpp("lifetimes")),
        case("cpp_scheduler", || cpp("scheduler")),
        case("cpp_scheduler_inline", || cpp("scheduler_inline")),
        case("cpp_shutdown", || cpp("shutdown")),
        case("cpp_shutdown_in_a_task", || cpp("shutdown_in_a_task")),
        case("cpp_shutdown_twice", || cpp("shutdown_twice")),
        case("cpp_end_in_a_task", || cpp("end_in_a_task")),
        case("cpp_many_tasks", || cpp("many_tasks")),
        case("cpp_classes", || cpp("classes")),
        case("cpp_two_schedulers", || cpp("two_schedulers")),
        case("cpp_metrics", || cpp("metrics")),
        case("cpp_graphs", || cpp("graphs")),
        case("cpp_graph_ends", || cpp("graph_ends")),
        case("cpp_graph_bad_input", || cpp("graph_bad_input")),
        case("cpp_fork", || cpp("fork")),
        case("cpp_lost", || cpp("lost")),
        case("cpp_inert", || cpp("inert")),
        case("cpp_no_cuda", || cpp("no_cuda")),
        case("cpp_privilege", || cpp("privilege")),
        case("cpp_bad_input", || cpp("bad_input")),
        case("cpp_page_unmapped", || cpp("page_unmapped")),
        case("cpp_hostile_words", || cpp("hostile_words")),
        case("cpp_two_runtimes", || cpp("two_runtimes")),
        case("c_server_beside_a_job", || serve("zernel-test-c")),
        case("cpp_server_beside_a_job", || serve("zernel-test-cpp")),
        case("linked_statically", linked_statically),
    ],
    LOADED,
);

/// Runs a program.
fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let status = command(program, arguments)?.status();
    let status = status.with_context(|| format!("{program} cannot be run"))?;
    ensure!(status.success(), "{program} {arguments:?}: {status}");
    Ok(())
}

/// The documented configuration.
const PAGE: &str = include_str!("../../../../Documentation/runtime-config.rst");

/// A program beside this one, with a lease that no pause of a loaded host ends.
fn command(program: &str, arguments: &[&str]) -> Result<Command> {
    lease("5000000")?;
    let own = std::env::current_exe()?;
    let folder = own.parent().context("this program has a folder")?;
    let mut command = Command::new(folder.join(program));
    command.args(arguments);
    Ok(command)
}

/// Runs an example of the documentation, which prints this.
fn example(program: &str, arguments: &[&str], printed: &str) -> Outcome {
    let done = command(program, arguments)?
        .stderr(Stdio::inherit())
        .output();
    let done = done.with_context(|| format!("{program} cannot be run"))?;
    ensure!(done.status.success(), "{program}: {}", done.status);
    check_eq!(String::from_utf8_lossy(&done.stdout), printed);
    Ok(())
}

fn example_server() -> Outcome {
    let block = PAGE
        .split_once(":caption: zernel.yaml\n\n")
        .context("a file")?
        .1;
    let lines = block.lines().map_while(|line| line.strip_prefix("    "));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("zernel.yaml");
    std::fs::write(&file, text)?;
    let file = file.to_str().context("a name of UTF-8")?;
    let printed = "answer: 42\n2 completed, 0 failed\n";
    example("zernel-example-server", &[file], printed)
}

/// Runs something while requests go in the order of their deadlines.
fn in_order(run: impl FnOnce() -> Outcome) -> Outcome {
    let tunables = Tunables::open()?;
    tunables.set("order", "edf")?;
    let result = run();
    tunables.set("order", "fifo")?;
    result
}

fn c(name: &str) -> Outcome {
    run("zernel-test-c", &[name])
}

fn cpp(name: &str) -> Outcome {
    run("zernel-test-cpp", &[name])
}

/// A server answers beside a job: by its class alone, and with requests beside its streams and in them.
fn serve(program: &str) -> Outcome {
    for way in ["serve_by_class", "serve_beside", "serve_inline"] {
        let mut job = command(program, &["job"])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = job.stdout.take().context("its output")?;
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        let served = run(program, &[way]);
        drop(job.stdin.take());
        let status = job.wait()?;
        served?;
        ensure!(status.success(), "{program} job beside {way}: {status}");
        check_eq!(line, "it works\n");
    }
    Ok(())
}

/// The static library does as the shared one.
fn linked_statically() -> Outcome {
    run("zernel-test-c-static", &["bad_input"])?;
    run("zernel-test-c-static", &["graph_bad_input"])?;
    run("zernel-test-cpp-static", &["bad_input"])?;
    run("zernel-test-cpp-static", &["scheduler"])
}
