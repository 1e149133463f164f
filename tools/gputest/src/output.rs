// SPDX-License-Identifier: MIT OR Apache-2.0
//! The findings, for people and as JSON.

use anyhow::Result;
use serde::Serialize;

use crate::gpu::Gpu;
use crate::programs::Program;
use crate::report::{Findings, Verdict};

/// A program with its findings.
#[derive(Debug, Serialize)]
pub struct Row {
    name: &'static str,
    about: &'static str,
    verdict: Verdict,
    error: Option<String>,
    #[serde(flatten)]
    findings: Findings,
}

impl Row {
    /// Of a program that has ended.
    pub fn new(program: &Program, found: Result<Findings>, is_software: bool) -> Self {
        let (findings, error) = match found {
            Ok(findings) => (findings, None),
            Err(error) => (Findings::default(), Some(format!("{error:#}"))),
        };
        let verdict = match error {
            Some(_) => Verdict::Failed,
            None => findings.verdict(is_software),
        };
        Self {
            name: program.name,
            about: program.about,
            verdict,
            error,
            findings,
        }
    }
}

/// All of it.
#[derive(Debug, Serialize)]
pub struct Output {
    device: String,
    uuid: String,
    bus: String,
    cuda: i32,
    driver: Option<String>,
    kernel: String,
    /// The software GPU, under the stand-in for CUDA.
    pub is_software: bool,
    programs: Vec<Row>,
    #[serde(skip)]
    is_ktap: bool,
}

impl Output {
    /// For a device; as KTAP for so many programs, if that is wanted.
    pub fn new(gpu: &Gpu, ktap: Option<usize>) -> Result<Self> {
        let (driver, device) = (&gpu.driver, gpu.device);
        let uuid = driver.uuid(device)?;
        let version = std::fs::read_to_string("/sys/module/nvidia/version");
        let output = Self {
            device: driver.name(device)?,
            uuid: uuid.iter().map(|byte| format!("{byte:02x}")).collect(),
            bus: driver.bus(device)?,
            cuda: driver.version(),
            driver: version.ok().map(|version| version.trim().to_owned()),
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            is_software: gpu.is_software()?,
            programs: Vec::new(),
            is_ktap: ktap.is_some(),
        };
        if let Some(count) = ktap {
            println!("KTAP version 1\n1..{count}");
        }
        let version = output.driver.as_deref().unwrap_or("none");
        output.say(&format!(
            "{}, driver {version}, CUDA {}.{}, Linux {}",
            output.device,
            output.cuda / 1000,
            output.cuda % 1000 / 10,
            output.kernel
        ));
        Ok(output)
    }

    /// Shows a line, in KTAP as a comment.
    fn say(&self, line: &str) {
        println!("{}{line}", if self.is_ktap { "# " } else { "" });
    }

    /// Adds a program, and shows it.
    pub fn add(&mut self, row: Row) {
        if !self.is_ktap {
            println!();
        }
        self.say(&format!("{}: {:?} - {}", row.name, row.verdict, row.about));
        if let Some(error) = &row.error {
            self.say(&format!("  error: {error}"));
        }
        if let Some(why) = &row.findings.absent {
            self.say(&format!("  {why}"));
        }
        for (name, value) in &row.findings.values {
            self.say(&format!("  {name}: {value}"));
        }
        for figure in &row.findings.figures {
            self.say(&format!("  {}", figure.told()));
        }
        for check in &row.findings.checks {
            let counts = !(self.is_software && check.hardware_only);
            let holds = match (counts, check.holds) {
                (false, _) => "not here",
                (true, true) => "holds",
                (true, false) => "DOES NOT HOLD",
            };
            self.say(&format!("  expected: {}: {holds}", check.expected));
        }
        self.programs.push(row);
        if let (true, Some(row)) = (self.is_ktap, self.programs.last()) {
            let number = self.programs.len();
            match row.verdict {
                Verdict::Ok => println!("ok {number} {}", row.name),
                Verdict::Absent => println!("ok {number} {} # SKIP", row.name),
                Verdict::Outside | Verdict::Failed => println!("not ok {number} {}", row.name),
            }
        }
    }

    /// True if a program has this verdict.
    pub fn has(&self, verdict: Verdict) -> bool {
        self.programs.iter().any(|row| row.verdict == verdict)
    }

    /// The last line; true if nothing is outside of its range.
    pub fn end(&self) -> bool {
        let of = |verdict| {
            self.programs
                .iter()
                .filter(|row| row.verdict == verdict)
                .count()
        };
        if !self.is_ktap {
            println!();
        }
        self.say(&format!(
            "{} verdicts: {} ok, {} outside, {} absent, {} failed",
            self.programs.len(),
            of(Verdict::Ok),
            of(Verdict::Outside),
            of(Verdict::Absent),
            of(Verdict::Failed)
        ));
        !self.has(Verdict::Outside)
    }

    /// As JSON.
    pub fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}
