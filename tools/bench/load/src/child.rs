// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process of this program that does a part of a run. It is told its order as an argument, the rest in
//! lines, and answers in lines of JSON.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{bail, Context as _, Result};
use libzernel::Timestamp;
use serde::de::DeserializeOwned;
use serde::Serialize;

/// A process; ends with this value.
#[derive(Debug)]
pub struct Child {
    /// Its name in errors.
    name: String,
    process: process::Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Starts one, for a hidden command with an order.
    pub fn start(name: String, command: &str, order: &impl Serialize) -> Result<Self> {
        let program = env::current_exe().context("cannot find this program's file")?;
        let mut process = Command::new(program)
            .arg(command)
            .arg(serde_json::to_string(order)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("{name} has no pipes");
        };
        Ok(Self {
            name,
            process,
            input,
            output: BufReader::new(output),
        })
    }

    /// Tells it when to start.
    pub fn tell(&mut self, start: Timestamp) -> Result<()> {
        writeln!(self.input, "{}", start.as_ns())
            .with_context(|| format!("{} has ended early", self.name))
    }

    /// Its next answer.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let name = &self.name;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            let status = self.process.wait()?;
            bail!("{name} ended early ({status})");
        }
        serde_json::from_str(&line).with_context(|| format!("{name} answered '{line}'"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself, which is no error here.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
