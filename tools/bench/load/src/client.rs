// SPDX-License-Identifier: GPL-2.0
//! The client loop: begin, prepare, copy in, infer, copy out; one request at a time.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use zernel_workload::{Arrival, ClientSpec, Schedule};

/// What a client needs: a clock that starts with the run, and a GPU.
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

/// One request; times since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// How many arrived before it, served or not.
    pub number: u64,
    /// When it arrived.
    pub tick: Duration,
    /// When its preparation began.
    pub start: Duration,
    /// When its result was there.
    pub end: Duration,
}

impl Request {
    /// Latency from the start of the preparation.
    pub fn latency(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }

    /// Latency from the arrival.
    pub fn latency_with_queue(&self) -> Duration {
        self.end.saturating_sub(self.tick)
    }
}

/// The requests of a client, a column per figure, so that they are compact as text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Requests that a newer one took the place of.
    pub dropped: u64,
    /// How many arrived before each, served or not.
    pub number: Vec<u64>,
    /// Nanoseconds from the start of the run to the start of the preparation.
    pub start_ns: Vec<u64>,
    /// Nanoseconds from the arrival to the start of the preparation.
    pub queued_ns: Vec<u64>,
    /// Nanoseconds from the start of the preparation to the result.
    pub latency_ns: Vec<u64>,
}

impl Requests {
    /// None yet, with room for those of a run of `duration`.
    pub fn for_run(spec: &ClientSpec, duration: Duration) -> Self {
        let served = duration.as_secs_f64() / spec.latency_alone().as_secs_f64();
        let arriving = match spec.arrival {
            Arrival::Closed => served,
            Arrival::Periodic(rate) | Arrival::Poisson(rate) => rate * duration.as_secs_f64(),
        };
        // Writing to the memory makes the kernel give it now, so that no request pays for that.
        let column = || {
            let mut column = vec![1; served.min(arriving) as usize + 16];
            column.clear();
            column
        };
        Self {
            dropped: 0,
            number: column(),
            start_ns: column(),
            queued_ns: column(),
            latency_ns: column(),
        }
    }

    fn push(&mut self, request: Request) {
        let ns = |duration: Duration| duration.as_nanos() as u64;
        self.number.push(request.number);
        self.start_ns.push(ns(request.start));
        self.queued_ns
            .push(ns(request.start.saturating_sub(request.tick)));
        self.latency_ns.push(ns(request.latency()));
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Request> + '_ {
        self.number
            .iter()
            .zip(&self.start_ns)
            .zip(&self.queued_ns)
            .zip(&self.latency_ns)
            .map(|(((&number, &start), &queued), &latency)| Request {
                number,
                tick: Duration::from_nanos(start.saturating_sub(queued)),
                start: Duration::from_nanos(start),
                end: Duration::from_nanos(start + latency),
            })
    }
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
    use zernel_workload::{Network, Role};

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
