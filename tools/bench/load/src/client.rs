// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client loop: begin, prepare, copy in, infer, copy out; one request at a time.

use std::time::Duration;

use anyhow::Result;
use zernel_report::requests::{Request, Requests};
use zernel_workload::{ClientSpec, Schedule};

/// The needs of a client: a clock that starts with the run, and a GPU.
pub trait Machine {
    /// Time since the start of the run.
    fn now(&mut self) -> Duration;
    /// Sleeps until that time since the start of the run.
    fn sleep_until(&mut self, time: Duration) -> Result<()>;
    /// A request begins at `start`: tells ahead, if it does, that it will need the GPU. Returns when
    /// the preparation can begin.
    fn begin(&mut self, start: Duration) -> Result<Duration>;
    /// Prepares until that time since the start of the run.
    fn prepare(&mut self, until: Duration) -> Result<()>;
    /// Copies to the GPU and returns when that is done.
    fn copy_in(&mut self) -> Result<()>;
    /// Runs the kernels of an inference and returns when they are done.
    fn infer(&mut self) -> Result<()>;
    /// Copies from the GPU and returns when that is done.
    fn copy_out(&mut self) -> Result<()>;
    /// The request is over, and its latency counted.
    fn over(&mut self) -> Result<()>;
}

/// Serves requests until `until` and adds them to `requests`; one that has begun is finished.
///
/// `seed` is that of the preparation times.
pub fn serve(
    spec: &ClientSpec,
    mut schedule: Schedule,
    seed: u64,
    machine: &mut impl Machine,
    until: Duration,
    mut requests: Requests,
) -> Result<Requests> {
    let mut now = machine.now();
    loop {
        let next = schedule.next(now);
        if next.tick.max(now) >= until {
            return Ok(requests);
        }
        requests.dropped += next.dropped;
        if next.tick > now {
            machine.sleep_until(next.tick)?;
            now = machine.now();
        }
        let start = now;
        let prepare = spec.prepare_us.sample(seed, next.number, start);
        now = request(prepare, machine, start)?;
        requests.push(Request {
            number: next.number,
            tick: next.tick,
            start,
            end: now,
        });
        machine.over()?;
        now = machine.now();
    }
}

/// Serves one request that begins at `start` with a preparation of `prepare`; returns when it is done.
pub fn request(prepare: Duration, machine: &mut impl Machine, start: Duration) -> Result<Duration> {
    let begun = machine.begin(start)?;
    if !prepare.is_zero() {
        machine.prepare(begun + prepare)?;
    }
    machine.copy_in()?;
    machine.infer()?;
    machine.copy_out()?;
    Ok(machine.now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zernel_workload::{Arrival, Network, Role};

    /// A machine on which everything takes exactly its time.
    struct Ideal {
        spec: ClientSpec,
        now: Duration,
        log: Vec<&'static str>,
    }

    impl Ideal {
        fn new(arrival: Arrival, network: Network) -> Self {
            Self {
                spec: ClientSpec::new(Role::Lc, network, arrival),
                now: Duration::ZERO,
                log: Vec::new(),
            }
        }

        fn serve(&mut self, until: Duration) -> Requests {
            let spec = self.spec.clone();
            let schedule = Schedule::new(spec.arrival, Duration::ZERO, 1);
            let requests = Requests::for_run(&spec, until);
            serve(&spec, schedule, 1, self, until, requests).unwrap()
        }

        fn step(&mut self, name: &'static str, time: Duration) -> Result<()> {
            self.log.push(name);
            self.now += time;
            Ok(())
        }
    }

    impl Machine for Ideal {
        fn now(&mut self) -> Duration {
            self.now
        }

        fn sleep_until(&mut self, time: Duration) -> Result<()> {
            self.log.push("sleep");
            self.now = self.now.max(time);
            Ok(())
        }

        fn begin(&mut self, start: Duration) -> Result<Duration> {
            Ok(start)
        }

        fn prepare(&mut self, until: Duration) -> Result<()> {
            self.log.push("prepare");
            self.now = self.now.max(until);
            Ok(())
        }

        fn copy_in(&mut self) -> Result<()> {
            self.step("in", self.spec.copy_in())
        }

        fn infer(&mut self) -> Result<()> {
            self.step("infer", self.spec.network.service())
        }

        fn copy_out(&mut self) -> Result<()> {
            self.step("out", self.spec.copy_out())
        }

        fn over(&mut self) -> Result<()> {
            self.log.push("over");
            Ok(())
        }
    }

    #[test]
    fn a_request_goes_through_its_steps_in_order() {
        let mut machine = Ideal::new(Arrival::Closed, Network::Bert);
        let requests = machine.serve(Duration::from_micros(1));
        assert_eq!(machine.log, ["prepare", "in", "infer", "out", "over"]);
        assert_eq!(requests.latency_ns, [1_490_000]);
        assert_eq!(requests.queued_ns, [0]);
    }

    #[test]
    fn an_unloaded_periodic_client_drops_nothing() {
        let mut machine = Ideal::new(Arrival::Periodic(100.0), Network::Vgg);
        let requests = machine.serve(Duration::from_secs(1));
        assert_eq!((requests.latency_ns.len(), requests.dropped), (100, 0));
        assert!(requests.latency_ns.iter().all(|&ns| ns == 2_490_000));
        assert!(requests.iter().all(|request| request.tick == request.start));
    }

    #[test]
    fn an_overloaded_client_is_always_busy_and_drops_the_rest() {
        let mut machine = Ideal::new(Arrival::Periodic(220.0), Network::Resnet152);
        let requests = machine.serve(Duration::from_secs(1));
        assert_eq!(requests.latency_ns.len(), 142, "7.09 ms each");
        let seen = requests.latency_ns.len() as u64 + requests.dropped;
        assert!((217..=220).contains(&seen), "{seen} of 220 ticks");
        let queued = requests.queued_ns.iter().max().unwrap();
        assert!(*queued < 1_000_000_000 / 220, "the newest wins");
    }

    #[test]
    fn columns_round_trip() {
        let request = Request {
            number: 3,
            tick: Duration::from_nanos(5),
            start: Duration::from_nanos(9),
            end: Duration::from_nanos(30),
        };
        let mut requests = Requests::default();
        requests.push(request);
        assert_eq!(requests.iter().collect::<Vec<_>>(), [request]);
        assert_eq!(request.latency().as_nanos(), 21);
        assert_eq!(request.latency_with_queue().as_nanos(), 25);
        let json = serde_json::to_string(&requests).unwrap();
        assert_eq!(serde_json::from_str::<Requests>(&json).unwrap(), requests);
    }
}
