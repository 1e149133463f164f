// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the cache of metadata, and the loader on a slow store beside other libraries.

mod cache;
mod cases;
mod compare;
mod data;
mod floor;
mod gates;
mod load;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{ensure, Result};
use clap::{Parser, Subcommand};
use tokio::net::TcpListener;
use zernel_store::objects::Objects;
use zernel_store::server::Store;
use zernel_store::weather::Weather;

#[derive(Debug, Parser)]
#[command(about, version)]
struct Arguments {
    #[command(subcommand)]
    of: Of,
}

#[derive(Debug, Subcommand)]
enum Of {
    /// Costs of the cache, on one core and on two
    Cache,
    /// Writes the data sets into a folder, unless they are there
    Make { folder: PathBuf },
    /// Serves a folder over HTTP, under a weather, until the input ends; prints the address
    Serve {
        folder: PathBuf,
        #[arg(long, default_value = "")]
        weather: Weather,
    },
    /// Reads the run in the input, and prints its result
    Load,
    /// Opens the gates of the run in the input, with a consumer that computes for so many microseconds
    Gates { compute: u64 },
    /// Compares libraries on all cases, or on those that have one of the words in their names; the
    /// word gates stands for gates
    Compare {
        words: Vec<String>,
        /// The data sets
        #[arg(long)]
        data: PathBuf,
        /// The interpreter that has the other libraries
        #[arg(long)]
        python: PathBuf,
        /// The script that reads with them
        #[arg(long)]
        script: PathBuf,
        /// The file that results are added to, a line each
        #[arg(long)]
        out: PathBuf,
        /// The libraries
        #[arg(long, value_delimiter = ',', default_values_t = cases::LIBRARIES.map(String::from))]
        libraries: Vec<String>,
        /// The part of the batches
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// The number of runs of each case, of which the medians are told
        #[arg(long, default_value_t = 1)]
        repeat: usize,
        /// Requests at once
        #[arg(long, default_value_t = 64)]
        in_flight: usize,
        /// MiB of caches
        #[arg(long, default_value_t = 128)]
        mib: u64,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().of {
        Of::Cache => {
            for (order, is_random) in [("in order", false), ("at random", true)] {
                for threads in [1, 2] {
                    let looks = cache::looks(100_000, threads, is_random) / 1e6;
                    println!("try_get, 100,000 entries {order}, {threads} threads: {looks:.1} M/s");
                }
            }
            let pairs = cache::admissions(100_000) / 1e6;
            println!("admit and advance, 100,000 entries: {pairs:.2} M/s");
            let ns = cache::advance(1_000_000, 50_000);
            println!("advance, 1,000,000 entries in 50,000 batches: {ns:.0} ns");
        }
        Of::Make { folder } => make(&folder)?,
        Of::Serve { folder, weather } => serve(&folder, weather)?,
        Of::Load => {
            let run = serde_json::from_reader(std::io::stdin())?;
            println!(
                "{}",
                serde_json::to_string(&runtime()?.block_on(load::load(&run))?)?
            );
        }
        Of::Gates { compute } => {
            let run = serde_json::from_reader(std::io::stdin())?;
            let gates = gates::gates(&run, Duration::from_micros(compute));
            println!("{}", serde_json::to_string(&runtime()?.block_on(gates)?)?);
        }
        Of::Compare {
            words,
            data,
            python,
            script,
            out,
            libraries,
            scale,
            repeat,
            in_flight,
            mib,
        } => {
            let bench = compare::Bench {
                data,
                python,
                script,
                in_flight,
                bytes: mib << 20,
            };
            for name in &libraries {
                let known = cases::LIBRARIES;
                ensure!(
                    known.contains(&name.as_str()),
                    "{name}: it is one of {known:?}"
                );
            }
            let has_gates = words.is_empty() || words.iter().any(|word| word == "gates");
            let cases = cases::cases(&words, scale);
            ensure!(
                has_gates || !cases.is_empty(),
                "no case has any of {words:?} in its name"
            );
            if has_gates {
                cases::gates(&bench, scale)?;
            }
            cases::run(&bench, &cases, &libraries, repeat.max(1), &out)?;
        }
    }
    Ok(())
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.enable_all().build()?)
}

fn make(folder: &std::path::Path) -> Result<()> {
    let partial = folder.with_extension("partial");
    if !folder.exists() {
        if partial.exists() {
            std::fs::remove_dir_all(&partial)?;
        }
        data::write(&partial)?;
        std::fs::rename(&partial, folder)?;
    }
    Ok(())
}

fn serve(folder: &std::path::Path, weather: Weather) -> Result<()> {
    let store = Store::new(Objects::read(folder)?, weather);
    let runtime = runtime()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    println!("http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    runtime.spawn(store.serve(listener));
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
