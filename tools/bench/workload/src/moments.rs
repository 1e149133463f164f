// SPDX-License-Identifier: MIT OR Apache-2.0
//! Means of times and of their squares: all that queueing theory asks of a service.

/// The mean of a random time and that of its square, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// Mean.
    pub mean: f64,
    /// Mean of the square.
    pub square: f64,
}

impl Moments {
    /// Of a time that is always the same.
    pub fn constant(time: f64) -> Self {
        Self {
            mean: time,
            square: time * time,
        }
    }

    /// Of these values, all equally likely; nothing if there are none.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sum = Self::default();
        let mut count = 0.0;
        for value in values {
            sum.mean += value;
            sum.square += value * value;
            count += 1.0;
        }
        match count > 0.0 {
            true => sum.times(1.0 / count),
            false => sum,
        }
    }

    /// A share of both: one part of a mixture.
    fn times(self, share: f64) -> Self {
        Self {
            mean: self.mean * share,
            square: self.square * share,
        }
    }

    /// Of so many times the value.
    pub(crate) fn scaled(self, by: f64) -> Self {
        Self {
            mean: self.mean * by,
            square: self.square * by * by,
        }
    }

    /// Of the sum with another value, which does not depend on this one.
    pub fn plus(self, other: Self) -> Self {
        Self {
            mean: self.mean + other.mean,
            square: self.square + 2.0 * self.mean * other.mean + other.square,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientSpec, Draw, Workload};

    fn near(value: f64, expected: f64, tolerance: f64) -> bool {
        (value - expected).abs() <= tolerance * expected
    }

    /// A client of a file beside this trace.
    fn client(network: &str, trace: &str) -> ClientSpec {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.csv"), trace).unwrap();
        let path = dir.path().join("a.yaml");
        let text = format!(
            "
            name: mine
            seconds: 1
            clients:
              - {{role: lc, network: {network}, arrival: {{trace: {{file: a.csv}}}}}}
            "
        );
        std::fs::write(&path, text).unwrap();
        let mut workload = Workload::load(path.to_str().unwrap(), "show").unwrap();
        workload.clients.remove(0)
    }

    const SIZES: [u64; 3] = [0, 100, 800];

    /// Means of 60,000 requests: they agree within 2 %, those of squares within 4 %.
    #[test]
    fn moments_are_those_of_the_requests_that_are_drawn() {
        for network in [
            "vgg",
            "{name: n, service_us: 700, us_per_size: 2}",
            "{name: n, service_us: {uniform: {low: 100, high: 900}}}",
            "{name: n, service_us: {bimodal: {low: 80, high: 4000, high_permille: 100}}}",
            "{name: n, service_us: {log-normal: {median: 300, sigma: 0.8}}, us_per_size: 1}",
            "{name: n, kernels: [{us: {uniform: {low: 1, high: 900}}, times: 3}, {us: 9}]}",
            "{name: n, kernels: [{us: {log-normal: {median: 90, sigma: 1}}, us_per_size: 0.5, \
             times: 2}, {us: 40, us_per_size: 0.1, times: 3}]}",
        ] {
            let one = client(network, "time_s,size\n0,\n1,100\n2,800\n");
            let drawn = Moments::of((0..60_000).map(|number| {
                let pieces = one.pieces(&Draw {
                    number,
                    size: SIZES[number as usize % SIZES.len()],
                    ..Draw::default()
                });
                pieces.iter().map(|piece| piece.time.as_secs_f64()).sum()
            }));
            let told = one.moments().unwrap();
            assert!(near(told.mean, drawn.mean, 0.02), "{network}: {told:?}");
            assert!(near(told.square, drawn.square, 0.04), "{network}: {told:?}");
        }
    }

    #[test]
    fn times_that_are_no_independent_draws_have_none() {
        for us in [
            "{drift: {from: 100, to: 900, seconds: 1}}",
            "{step: {before: 100, after: 900, seconds: 1}}",
            "{sized: {base: 40, low: 50, high: 800}}",
            // A hundredth of what it draws is cut at a second.
            "{log-normal: {median: 1000, sigma: 3}}",
        ] {
            for network in [
                format!("{{name: n, service_us: {us}}}"),
                format!("{{name: n, kernels: [{{us: 5}}, {{us: {us}}}]}}"),
            ] {
                assert_eq!(client(&network, "time_s\n0\n").moments(), None, "{network}");
            }
        }
    }
}
