// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads: which clients run, how often and for how long.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure, Context, Result};
use serde::{Deserialize, Serialize};

use crate::{Arrival, ClientSpec, Preparation, Published, Role};

/// Which clients share a TSG.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Deployment {
    /// None: a process, so a TSG, per client.
    #[default]
    PerClient,
    /// All best-effort clients share one, a channel each, all latency-critical ones another: as in
    /// GPreempt's published runs.
    Published,
}

/// Checks that a workload can run for so long.
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
    /// Its purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Its length.
    pub seconds: f64,
    /// Its clients.
    pub clients: Vec<ClientSpec>,
    /// Published results of others for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

/// Names and files of the built-in workloads.
const FILES: [(&str, &str); 21] = [
    ("A", include_str!("../workloads/A.yaml")),
    ("B", include_str!("../workloads/B.yaml")),
    ("B0", include_str!("../workloads/B0.yaml")),
    ("B1", include_str!("../workloads/B1.yaml")),
    ("B2", include_str!("../workloads/B2.yaml")),
    ("B3", include_str!("../workloads/B3.yaml")),
    ("B4", include_str!("../workloads/B4.yaml")),
    ("C", include_str!("../workloads/C.yaml")),
    ("D", include_str!("../workloads/D.yaml")),
    ("E", include_str!("../workloads/E.yaml")),
    ("Y", include_str!("../workloads/Y.yaml")),
    ("Z", include_str!("../workloads/Z.yaml")),
    ("J-uniform", include_str!("../workloads/J-uniform.yaml")),
    ("J-bimodal", include_str!("../workloads/J-bimodal.yaml")),
    ("J-lognormal", include_str!("../workloads/J-lognormal.yaml")),
    ("J-drift", include_str!("../workloads/J-drift.yaml")),
    ("J-step", include_str!("../workloads/J-step.yaml")),
    ("F-linear", include_str!("../workloads/F-linear.yaml")),
    ("F-kinds", include_str!("../workloads/F-kinds.yaml")),
    ("F-outliers", include_str!("../workloads/F-outliers.yaml")),
    ("F-drift", include_str!("../workloads/F-drift.yaml")),
];

impl Workload {
    /// Names of the built-in ones.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// Names of the jitter suite: an LC client at 100 requests per second, whose preparation takes
    /// now this long and now that, beside a best-effort one.
    pub fn jitter_suite() -> impl Iterator<Item = &'static str> {
        Self::built_in_names().filter(|name| name.starts_with("J-"))
    }

    /// Names of the suite of features: the same, with a preparation that follows from features which the
    /// client tells.
    pub fn feature_suite() -> impl Iterator<Item = &'static str> {
        Self::built_in_names().filter(|name| name.starts_with("F-"))
    }

    /// The built-in workload of this name.
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = FILES.iter().find(|(known, _)| *known == name)?;
        Some(Self::from_yaml(text).expect("every built-in file is read in a test"))
    }

    /// The same with another duration.
    pub fn lasting(self, seconds: f64) -> Result<Self> {
        check_seconds(seconds)?;
        Ok(Self { seconds, ..self })
    }

    /// The same with another preparation of the LC clients.
    pub fn preparing(mut self, preparation: Preparation) -> Self {
        for client in &mut self.clients {
            if client.role == Role::Lc {
                client.prepare_us = preparation;
            }
        }
        self
    }

    /// When the preparation of the latency-critical clients changes for good, if it does.
    pub fn change(&self) -> Option<Duration> {
        let lc = self.clients.iter().filter(|one| one.role == Role::Lc);
        let step = |one: &ClientSpec| match one.prepare_us {
            Preparation::Step(step) => Some(Duration::from_secs_f64(step.seconds)),
            _ => None,
        };
        lc.filter_map(step).next()
    }

    /// A workload of these clients.
    pub fn new(name: &str, seconds: f64, clients: Vec<ClientSpec>) -> Result<Self> {
        let workload = Self {
            name: name.to_owned(),
            about: None,
            seconds,
            clients,
            published: None,
        };
        workload.check()?;
        Ok(workload)
    }

    /// A built-in workload, or the YAML file at this path, with the traces that it names; `see` is the
    /// command that shows the form of one.
    pub fn load(name_or_path: &str, see: &str) -> Result<Self> {
        if let Some(workload) = Self::built_in(name_or_path) {
            return Ok(workload);
        }
        let text = std::fs::read_to_string(name_or_path)
            .with_context(|| format!("cannot read {name_or_path}"))?;
        let read = Self::from_yaml(&text).map_err(|error| {
            let why = match serde_yaml_ng::from_str(&text) {
                // serde shows what it found, which would be the whole file.
                Ok(other) if !Self::is_meant(&other) => String::new(),
                Ok(_) => format!(": {error:#}"),
                Err(syntax) => format!(": {syntax}"),
            };
            anyhow!("{name_or_path} is not a workload{why}; see {see}")
        });
        let mut workload = read?;
        let dir = Path::new(name_or_path).parent().unwrap_or(Path::new(""));
        for client in &mut workload.clients {
            client
                .open(dir)
                .with_context(|| format!("cannot use the workload {name_or_path}"))?;
        }
        Ok(workload)
    }

    /// True if the author of this had a workload in mind.
    fn is_meant(value: &serde_yaml_ng::Value) -> bool {
        ["name", "seconds", "clients"]
            .iter()
            .any(|key| value.get(key).is_some())
    }

    /// Checks that this is the name of a built-in workload or of a file.
    pub fn check_name(name_or_path: &str) -> Result<()> {
        let is_file = || {
            Path::new(name_or_path)
                .metadata()
                .is_ok_and(|found| !found.is_dir())
        };
        ensure!(
            Self::built_in_names().any(|name| name == name_or_path) || is_file(),
            "neither a built-in workload ({}) nor a file",
            Self::built_in_names().collect::<Vec<_>>().join(", ")
        );
        Ok(())
    }

    /// As YAML.
    pub fn to_yaml(&self) -> Result<String> {
        Ok(serde_yaml_ng::to_string(self)?)
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
            bail!("it has no clients; name at least one under `clients`");
        }
        self.clients.iter().try_for_each(ClientSpec::check)
    }

    /// Its length.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// When each client's first request arrives: periodic clients of the same rate follow each
    /// other by their cumulative latency alone and a twentieth of it, so that the next starts when
    /// the last is done, and not while it is about to be.
    pub fn phases(&self) -> Vec<Duration> {
        let mut taken: HashMap<u64, Duration> = HashMap::new();
        self.clients
            .iter()
            .map(|client| match &client.arrival {
                Arrival::Periodic(rate) => {
                    let sum = taken.entry(rate.to_bits()).or_default();
                    let phase = *sum;
                    *sum += client.latency_alone() * 21 / 20;
                    phase
                }
                _ => Duration::ZERO,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::prepare_us;
    use crate::Network;

    fn built_in(name: &str) -> Workload {
        Workload::built_in(name).unwrap()
    }

    #[test]
    fn every_built_in_name_has_a_sound_workload() {
        for name in Workload::built_in_names() {
            let workload = built_in(name);
            assert_eq!(workload.name, name);
            assert!(workload.about.is_some());
            workload.check().unwrap();
            assert!(workload.clients.iter().any(|c| c.role == Role::Lc));
            assert!(workload.clients.iter().any(|c| c.role == Role::Be));
        }
        assert!(Workload::built_in("X").is_none());
    }

    #[test]
    fn built_in_workloads_are_the_published_ones() {
        use Arrival::{Closed, Periodic, Poisson};
        let mix = |role, arrival: Arrival| {
            Network::MIX
                .map(|network| ClientSpec::new(role, network, arrival.clone()))
                .to_vec()
        };
        let vgg = |arrival| vec![ClientSpec::new(Role::Lc, Network::Vgg, arrival)];
        let resnet = |arrival| vec![ClientSpec::new(Role::Be, Network::Resnet152, arrival)];
        for (name, seconds, lc, be) in [
            ("A", 60.0, vgg(Periodic(100.0)), resnet(Periodic(100.0))),
            ("B", 60.0, vgg(Periodic(220.0)), resnet(Periodic(220.0))),
            ("B0", 5.0, vgg(Periodic(100.0)), resnet(Closed)),
            ("B1", 5.0, vgg(Periodic(150.0)), resnet(Closed)),
            ("B2", 5.0, vgg(Periodic(200.0)), resnet(Closed)),
            ("B3", 5.0, vgg(Periodic(250.0)), resnet(Closed)),
            ("B4", 5.0, vgg(Periodic(300.0)), resnet(Closed)),
            (
                "C",
                60.0,
                vgg(Periodic(100.0)),
                mix(Role::Be, Periodic(100.0)),
            ),
            (
                "D",
                60.0,
                mix(Role::Lc, Periodic(20.0)),
                mix(Role::Be, Periodic(100.0)),
            ),
            (
                "E",
                60.0,
                mix(Role::Lc, Poisson(20.0)),
                mix(Role::Be, Poisson(100.0)),
            ),
        ] {
            let workload = built_in(name);
            assert_eq!(workload.seconds, seconds, "{name}");
            assert_eq!(workload.clients, [lc, be].concat(), "{name}");
        }
        let y = built_in("Y");
        assert!(y.clients[1].prepare_us.is_none());
        assert_eq!(y.clients[1].arrival, Periodic(150.0));
        let z = built_in("Z");
        assert_eq!(z.clients.len(), 5);
    }

    #[test]
    fn the_jitter_suite_has_a_workload_for_each_distribution() {
        let preparations: Vec<_> = Workload::jitter_suite()
            .map(|name| built_in(name).clients[0].prepare_us)
            .collect();
        assert_eq!(preparations.len(), 5);
        for (at, one) in preparations.iter().enumerate() {
            assert!(!matches!(one, Preparation::Constant(_)));
            assert!(!preparations[..at].contains(one));
        }
        for name in Workload::jitter_suite() {
            let workload = built_in(name);
            assert_eq!(workload.clients[0].arrival, Arrival::Periodic(100.0));
            assert_eq!(workload.clients[0].network, Network::Vgg.into());
        }
    }

    #[test]
    fn the_suite_of_features_has_sizes() {
        assert_eq!(Workload::feature_suite().count(), 4);
        for name in Workload::feature_suite() {
            let client = &built_in(name).clients[0];
            assert!(matches!(client.prepare_us, Preparation::Sized(_)));
            assert_eq!(client.arrival, Arrival::Periodic(100.0));
        }
    }

    #[test]
    fn equal_rates_are_staggered_by_latency_alone() {
        let a = built_in("A");
        assert_eq!(a.clients[0].latency_alone(), Duration::from_micros(2_490));
        assert_eq!(
            a.phases(),
            [Duration::ZERO, Duration::from_nanos(2_614_500)],
            "so that A hardly overlaps"
        );
        let b1 = built_in("B1");
        assert_eq!(b1.phases(), [Duration::ZERO; 2]);
    }

    #[test]
    fn another_preparation_is_that_of_the_lc_clients_alone() {
        let preparation = Preparation::Constant(50);
        let c = built_in("C").preparing(preparation).lasting(1.0).unwrap();
        assert_eq!(c.clients[0].prepare_us, preparation);
        assert_eq!(c.clients[1].prepare_us, prepare_us());
        assert_eq!(c.seconds, 1.0);
        assert!(c.lasting(0.0).is_err());
    }

    #[test]
    fn yaml_is_read_and_checked() {
        let text = "
            name: mine
            seconds: 2
            clients:
              - {role: lc, network: bert, arrival: {poisson: 50}}
              - {role: be, network: densenet, arrival: closed, prepare_us: 0, weight: 3}
              - role: be
                network: {name: own, service_us: 500}
                arrival: closed
                prepare_us: {uniform: {low: 50, high: 500}}
        ";
        let mine = Workload::from_yaml(text).unwrap();
        assert_eq!(mine.clients[0].arrival, Arrival::Poisson(50.0));
        assert_eq!(mine.clients[0].prepare_us, prepare_us());
        assert!(mine.clients[1].prepare_us.is_none());
        assert_eq!((mine.clients[0].weight, mine.clients[1].weight), (1, 3));

        for (from, to) in [
            ("seconds: 2", "seconds: 0"),
            ("poisson: 50", "poisson: -1"),
            ("{poisson: 50}", "{gamma: {rate: 50, cv: 0}}"),
            ("{poisson: 50}", "{on-off: {rate: 50, on_s: 0, off_s: 1}}"),
            ("role: lc", "role: vip"),
            ("prepare_us: 0", "prepare: 0"),
            ("prepare_us: 0", "prepare_us: 2000000"),
            ("weight: 3", "weight: 0"),
            ("service_us: 500", "service_us: 0"),
            ("low: 50", "low: 501"),
            ("weight: 3", "copy_in: {bytes: 1, mb_per_s: 1}"),
            ("weight: 3", "copy_out: {bytes: -1}"),
            ("weight: 3", "copy_out: {bits: 1}"),
            ("weight: 3", "copy_in: {bytes_per_size: 1}"),
            ("service_us: 500", "service_us: 500, us_per_size: 1"),
        ] {
            assert!(
                Workload::from_yaml(&text.replace(from, to)).is_err(),
                "{to}"
            );
        }
        assert!(Workload::from_yaml("name: x\nseconds: 1\nclients: []").is_err());
    }

    #[test]
    fn a_file_finds_its_traces_beside_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.yaml");
        let text = "
            name: mine
            seconds: 2
            clients:
              - role: lc
                network: {name: llm, kernels: [{us: 5, us_per_size: 2}]}
                arrival: {trace: {file: sub/day.csv}}
                copy_in: {bytes: 1000, bytes_per_size: 50}
                prepare_us: 0
              - {role: be, network: bert, arrival: closed}
        ";
        let load = || Workload::load(path.to_str().unwrap(), "show");
        let error = |text: &str, trace: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::write(dir.path().join("sub/day.csv"), trace).unwrap();
            format!("{:#}", load().unwrap_err())
        };
        std::fs::write(&path, text).unwrap();
        let missing = format!("{:#}", load().unwrap_err());
        assert!(
            missing.contains("sub/day.csv: cannot be opened"),
            "{missing}"
        );
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(
            dir.path().join("sub/day.csv"),
            "time_s,size\n0.5,100\n1,300\n",
        )
        .unwrap();
        let mine = load().unwrap();
        let client = &mine.clients[0];
        assert_eq!(client.arrival.rate(mine.duration()), Some(1.0));
        assert!(client.varies() && !mine.clients[1].varies());
        // 200 units on average: 80 + 0.44 in, 405, 10 out.
        assert_eq!(client.latency_alone(), Duration::from_nanos(495_440));
        let shown = Workload::from_yaml(&mine.to_yaml().unwrap()).unwrap();
        let Arrival::Trace(trace) = &shown.clients[0].arrival else {
            panic!("{shown:?}");
        };
        assert!(trace.file.is_absolute());

        let none = error(text, "time_s\n1\n");
        assert!(none.contains("llm counts the size"), "{none}");
        assert!(none.contains("day.csv has one"), "{none}");
        let long = error(text, "time_s,size\n1,90000000\n");
        assert!(long.contains("us for a size of 90000000"), "{long}");
        let copied = text.replace("bytes_per_size: 50", "bytes_per_size: 100000000");
        let copied = error(&copied, "time_s,size\n1,4000\n");
        assert!(copied.contains("a copy_in takes"), "{copied}");
        let untold = text.replace("{trace: {file: sub/day.csv}}", "closed");
        let untold = error(&untold, "time_s\n1\n");
        assert!(untold.contains("which only a trace tells"), "{untold}");
    }

    #[test]
    fn specs_travel_as_json() {
        for name in Workload::built_in_names() {
            let one = built_in(name);
            let json = serde_json::to_string(&one).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), one);
            assert_eq!(Workload::from_yaml(&one.to_yaml().unwrap()).unwrap(), one);
        }
    }
}
