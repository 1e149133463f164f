// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the cache of metadata.

mod cache;

use clap::{Parser, Subcommand};

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
}

fn main() {
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
    }
}
