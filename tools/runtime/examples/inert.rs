// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that do nothing, for a tool that counts their instructions.

use std::error::Error;
use std::hint::black_box;

use zernel_runtime::{Mode, Options, Result, Runtime, Spec};

/// A program's calls for a request.
#[inline(never)]
fn one_request(runtime: &Runtime, spec: &Spec) -> Result<()> {
    let mut request = runtime.begin(spec)?;
    request.ready();
    request.done();
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::attach(&Options::default().mode(Mode::Off))?;
    let spec = Spec::new().key(7);
    for _ in 0..1000 {
        one_request(black_box(&runtime), black_box(&spec))?;
    }
    Ok(())
}
