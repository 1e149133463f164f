// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client loop: begin, prepare, copy in, infer, copy out; one request at a time.

use std::time::Duration;

use anyhow::Result;
use zernel_report::requests::{Request, Requests};
use zernel_workload::{ClientSpec, Next, Schedule};

/// The needs of a client: a clock that starts with the run, and a GPU.
pub trait Machine {
    /// Time since the start of the run.
    fn now(&mut self) -> Duration;
    /// Sleeps until that time since the start of the run.
    fn sleep_until(&mut self, time: Duration) -> Result<()>;
    /// A request will be served next. Returns whether it took time to get ready for it.
    fn expect(&mut self, next: &Next) -> Result<bool>;
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
        if now >= until {
            requests.miss(schedule.awaited(until));
            return Ok(requests);
        }
        let next = schedule.next(now);
        if next.tick >= until {
            return Ok(requests);
        }
        requests.dropped += next.dropped;
        requests.miss(next.overtaken);
        if machine.expect(&next)? {
            now = machine.now();
        }
        if next.tick > now {
            machine.sleep_until(next.tick)?;
            now = machine.now();
        }
        let start = now;
        let prepare = spec.prepare_us.sample(seed, next.number, start);
        now = request(prepare, machine, start)?;
        if let Some(deadline) = next.traced.deadline {
            requests.due += 1;
            requests.missed += u64::from(now > next.tick + deadline);
        }
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
        size: u64,
        log: Vec<&'static str>,
    }

    impl Ideal {
        fn new(arrival: Arrival, network: Network) -> Self {
            Self {
                spec: ClientSpec::new(Role::Lc, network, arrival),
                now: Duration::ZERO,
                size: 0,
                log: Vec::new(),
            }
        }

        fn serve(&mut self, until: Duration) -> Requests {
            let spec = self.spec.clone();
            let schedule = Schedule::new(&spec.arrival, Duration::ZERO, 1).unwrap();
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

        fn expect(&mut self, next: &Next) -> Result<bool> {
            self.size = next.traced.size;
            Ok(false)
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
            self.step("in", self.spec.copy_in(self.size))
        }

        fn infer(&mut self) -> Result<()> {
            self.step("infer", self.spec.network.service())
        }

        fn copy_out(&mut self) -> Result<()> {
            self.step("out", self.spec.copy_out(self.size))
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
    fn a_trace_is_served_with_its_sizes_and_deadlines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let text = "time_s,size,deadline_us\n0.001,1,1490\n0.010,1000,1490\n0.020,2,\n";
        std::fs::write(&path, text).unwrap();
        let arrival = Arrival::Trace(zernel_workload::Trace::new(&path));
        let mut machine = Ideal::new(arrival, Network::Bert);
        // A microsecond for each unit.
        machine.spec.input.bytes_per_size = 25_000;
        let requests = machine.serve(Duration::from_secs(1));
        assert_eq!(requests.latency_ns, [1_491_000, 2_490_000, 1_492_000]);
        assert_eq!((requests.due, requests.missed), (2, 2));
        machine.spec.input.bytes_per_size = 0;
        machine.now = Duration::ZERO;
        let requests = machine.serve(Duration::from_secs(1));
        assert_eq!((requests.due, requests.missed), (2, 0));
    }

    #[test]
    fn requests_that_are_never_served_miss_their_deadlines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        // 2 ms each or so: the second and the third arrive beside the first, and those at 0.0995
        // beside the one before it, until the run is over.
        let text = "time_s,deadline_us\n0.010,5000\n0.0101,5000\n0.0102,5000\n0.0985,5000\n\
                    0.0995,5000\n0.0996,5000\n0.0997,\n0.2,5000\n";
        std::fs::write(&path, text).unwrap();
        let arrival = Arrival::Trace(zernel_workload::Trace::new(&path));
        let mut machine = Ideal::new(arrival, Network::Vgg);
        let requests = machine.serve(Duration::from_millis(100));
        assert_eq!(requests.number, [0, 2, 3]);
        assert_eq!(requests.dropped, 1);
        assert_eq!((requests.due, requests.missed), (6, 3));
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
