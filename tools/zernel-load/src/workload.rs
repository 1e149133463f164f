// SPDX-License-Identifier: GPL-2.0
//! Workloads: which clients run, how often and for how long.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure, Context, Result};
use libzernel::Level;
use serde::{Deserialize, Serialize};

use crate::network::Network;

/// Time that a client prepares its data on the CPU.
const PREPARE: Duration = Duration::from_micros(200);
/// The smallest copy to the GPU.
const COPY_IN: Duration = Duration::from_micros(80);
/// The result, some kilobytes.
const COPY_OUT: Duration = Duration::from_micros(10);

/// What a client is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Latency-critical.
    Lc,
    /// Best-effort.
    Be,
}

impl Role {
    /// The level that goes with it.
    pub const fn level(self) -> Level {
        match self {
            Self::Lc => Level::LC,
            Self::Be => Level::BE,
        }
    }
}

/// When requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// The next as soon as the last is done.
    Closed,
    /// This many per second, evenly spaced.
    Periodic(f64),
    /// This many per second on average, at random.
    Poisson(f64),
}

/// One client: a process with a TSG on the compute engine and one on a copy engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSpec {
    /// What it is for.
    pub role: Role,
    /// What it serves.
    pub network: Network,
    /// When requests arrive.
    #[serde(with = "serde_yaml_ng::with::singleton_map")]
    pub arrival: Arrival,
    /// Preparation of the data on the CPU, in microseconds.
    #[serde(default = "prepare_us")]
    pub prepare_us: u64,
}

fn prepare_us() -> u64 {
    PREPARE.as_micros() as u64
}

impl ClientSpec {
    fn new(role: Role, network: Network, arrival: Arrival) -> Self {
        Self {
            role,
            network,
            arrival,
            prepare_us: prepare_us(),
        }
    }

    /// Preparation of the data on the CPU.
    pub const fn prepare(&self) -> Duration {
        Duration::from_micros(self.prepare_us)
    }

    /// Time of the copy to the GPU.
    pub const fn copy_in(&self) -> Duration {
        COPY_IN
    }

    /// Time of the copy from the GPU.
    pub const fn copy_out(&self) -> Duration {
        COPY_OUT
    }

    /// Latency of a request when nothing else runs.
    pub fn latency_alone(&self) -> Duration {
        self.prepare() + self.copy_in() + self.network.service() + self.copy_out()
    }

    fn check(&self) -> Result<()> {
        if let Arrival::Periodic(rate) | Arrival::Poisson(rate) = self.arrival {
            check_rate(rate)?;
        }
        ensure!(
            self.prepare_us <= 1_000_000,
            "a preparation of {} us is longer than a second",
            self.prepare_us
        );
        Ok(())
    }
}

/// Whether so many requests per second can be made.
pub fn check_rate(rate: f64) -> Result<()> {
    ensure!(
        (0.001..=100_000.0).contains(&rate),
        "a rate of {rate} requests/s is out of range (0.001 to 100000)"
    );
    Ok(())
}

/// Whether a workload can run for so long.
pub fn check_seconds(seconds: f64) -> Result<()> {
    ensure!(
        (0.01..=3600.0).contains(&seconds),
        "a duration of {seconds} s is out of range (0.01 to 3600)"
    );
    Ok(())
}

/// Clients that run together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// How long it runs.
    pub seconds: f64,
    /// Its clients.
    pub clients: Vec<ClientSpec>,
}

impl Workload {
    /// Names of the built-in ones.
    pub const BUILT_IN: [&'static str; 10] =
        ["A", "B", "B0", "B1", "B2", "B3", "B4", "C", "D", "E"];

    /// The built-in workload of this name.
    pub fn built_in(name: &str) -> Option<Self> {
        use Arrival::{Closed, Periodic, Poisson};
        let one = |role, network, arrival| vec![ClientSpec::new(role, network, arrival)];
        let mix = |role, arrival| {
            Network::MIX
                .map(|network| ClientSpec::new(role, network, arrival))
                .to_vec()
        };
        let vgg = |arrival| one(Role::Lc, Network::Vgg, arrival);
        let resnet = |arrival| one(Role::Be, Network::Resnet152, arrival);
        let (seconds, lc, be) = match name {
            "A" => (60.0, vgg(Periodic(100.0)), resnet(Periodic(100.0))),
            "B" => (60.0, vgg(Periodic(220.0)), resnet(Periodic(220.0))),
            "B0" => (5.0, vgg(Periodic(100.0)), resnet(Closed)),
            "B1" => (5.0, vgg(Periodic(150.0)), resnet(Closed)),
            "B2" => (5.0, vgg(Periodic(200.0)), resnet(Closed)),
            "B3" => (5.0, vgg(Periodic(250.0)), resnet(Closed)),
            "B4" => (5.0, vgg(Periodic(300.0)), resnet(Closed)),
            "C" => (60.0, vgg(Periodic(100.0)), mix(Role::Be, Periodic(100.0))),
            "D" => (
                60.0,
                mix(Role::Lc, Periodic(20.0)),
                mix(Role::Be, Periodic(100.0)),
            ),
            "E" => (
                60.0,
                mix(Role::Lc, Poisson(20.0)),
                mix(Role::Be, Poisson(100.0)),
            ),
            _ => return None,
        };
        Some(Self {
            name: name.to_owned(),
            seconds,
            clients: [lc, be].concat(),
        })
    }

    /// A workload of these clients.
    pub fn new(name: &str, seconds: f64, clients: Vec<ClientSpec>) -> Result<Self> {
        let workload = Self {
            name: name.to_owned(),
            seconds,
            clients,
        };
        workload.check()?;
        Ok(workload)
    }

    /// A built-in workload, or the YAML file at this path.
    pub fn load(name_or_path: &str) -> Result<Self> {
        if let Some(workload) = Self::built_in(name_or_path) {
            return Ok(workload);
        }
        let text = std::fs::read_to_string(name_or_path)
            .with_context(|| format!("cannot read {name_or_path}"))?;
        Self::from_yaml(&text).map_err(|error| {
            let why = match serde_yaml_ng::from_str(&text) {
                // serde shows what it found, which would be the whole file.
                Ok(other) if !Self::is_meant(&other) => String::new(),
                Ok(_) => format!(": {error:#}"),
                Err(syntax) => format!(": {syntax}"),
            };
            anyhow!("{name_or_path} is not a workload{why}; see zernel-load run --help")
        })
    }

    /// Whether somebody who wrote this had a workload in mind.
    fn is_meant(value: &serde_yaml_ng::Value) -> bool {
        ["name", "seconds", "clients"]
            .iter()
            .any(|key| value.get(key).is_some())
    }

    /// Whether this is the name of a built-in workload or of a file.
    pub fn check_name(name_or_path: &str) -> Result<()> {
        let is_file = || {
            Path::new(name_or_path)
                .metadata()
                .is_ok_and(|found| !found.is_dir())
        };
        ensure!(
            Self::built_in(name_or_path).is_some() || is_file(),
            "neither a built-in workload ({}) nor a file",
            Self::BUILT_IN.join(", ")
        );
        Ok(())
    }

    /// From YAML.
    pub fn from_yaml(text: &str) -> Result<Self> {
        let workload: Self = serde_yaml_ng::from_str(text)?;
        workload.check()?;
        Ok(workload)
    }

    fn check(&self) -> Result<()> {
        check_seconds(self.seconds)?;
        if self.clients.is_empty() {
            bail!("it has no clients");
        }
        self.clients.iter().try_for_each(ClientSpec::check)
    }

    /// How long it runs.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// When each client's first request arrives: periodic clients of the same rate and role's
    /// order follow each other by their cumulative latency alone.
    pub fn phases(&self) -> Vec<Duration> {
        let mut taken: HashMap<u64, Duration> = HashMap::new();
        self.clients
            .iter()
            .map(|client| match client.arrival {
                Arrival::Periodic(rate) => {
                    let sum = taken.entry(rate.to_bits()).or_default();
                    let phase = *sum;
                    *sum += client.latency_alone();
                    phase
                }
                Arrival::Closed | Arrival::Poisson(_) => Duration::ZERO,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_name_has_a_sound_workload() {
        for name in Workload::BUILT_IN {
            let workload = Workload::built_in(name).unwrap();
            assert_eq!(workload.name, name);
            workload.check().unwrap();
            assert!(workload.clients.iter().any(|c| c.role == Role::Lc));
            assert!(workload.clients.iter().any(|c| c.role == Role::Be));
        }
        assert!(Workload::built_in("Y").is_none());
    }

    #[test]
    fn c_has_a_client_for_each_network_of_the_mix() {
        let c = Workload::built_in("C").unwrap();
        assert_eq!(c.clients.len(), 6);
        let be = c.clients.iter().filter(|client| client.role == Role::Be);
        let networks: Vec<_> = be.map(|client| client.network).collect();
        assert_eq!(networks, Network::MIX);
    }

    #[test]
    fn equal_rates_are_staggered_by_latency_alone() {
        let a = Workload::built_in("A").unwrap();
        assert_eq!(a.clients[0].latency_alone(), Duration::from_micros(2_490));
        assert_eq!(
            a.phases(),
            [Duration::ZERO, Duration::from_micros(2_490)],
            "so that A hardly overlaps"
        );
        let b1 = Workload::built_in("B1").unwrap();
        assert_eq!(b1.phases(), [Duration::ZERO; 2]);
    }

    #[test]
    fn yaml_is_read_and_checked() {
        let text = "
            name: mine
            seconds: 2
            clients:
              - {role: lc, network: bert, arrival: {poisson: 50}}
              - {role: be, network: densenet, arrival: closed, prepare_us: 0}
        ";
        let mine = Workload::from_yaml(text).unwrap();
        assert_eq!(mine.clients[0].arrival, Arrival::Poisson(50.0));
        assert_eq!(mine.clients[0].prepare(), PREPARE);
        assert_eq!(mine.clients[1].prepare(), Duration::ZERO);

        for (from, to) in [
            ("seconds: 2", "seconds: 0"),
            ("poisson: 50", "poisson: -1"),
            ("role: lc", "role: vip"),
            ("prepare_us: 0", "prepare: 0"),
        ] {
            assert!(
                Workload::from_yaml(&text.replace(from, to)).is_err(),
                "{to}"
            );
        }
        assert!(Workload::from_yaml("name: x\nseconds: 1\nclients: []").is_err());
    }

    #[test]
    fn specs_travel_as_json() {
        let e = Workload::built_in("E").unwrap();
        let json = serde_json::to_string(&e).unwrap();
        assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), e);
    }
}
