// SPDX-License-Identifier: MIT OR Apache-2.0
// The counters of a scheduler for C++17. Their names and units are those of Python.
#ifndef ZERNEL_METRICS_HPP
#define ZERNEL_METRICS_HPP

#include <cstdint>

namespace zernel {

// Calls of the tasks of a type. `submitted` is the sum of completed, failed, cancelled, running and
// waiting.
struct TaskMetrics {
	std::uint64_t submitted = 0; // taken
	std::uint64_t rejected = 0;  // refused, as the queue was full
	std::uint64_t completed = 0; // with a result
	std::uint64_t failed = 0;    // with an exception
	std::uint64_t cancelled = 0; // by a shutdown, before they ran
	std::uint64_t running = 0;   // now
	std::uint64_t waiting = 0;   // for a worker now
	// Completed ones that took longer than the SLO of their task, from submit to the result.
	std::uint64_t slo_violations = 0;
	// From submit to the result, of the latest that are completed, as many as monitoring.window
	// says; 0: none is. In microseconds.
	double p50_latency_us = 0;
	double p99_latency_us = 0;
};

// Counters of a scheduler. A figure that zernel cannot tell is 0.
struct Metrics {
	// Of both types.
	std::uint64_t submitted = 0;
	std::uint64_t completed = 0;
	std::uint64_t failed = 0;
	std::uint64_t cancelled = 0;
	std::uint64_t running = 0;
	std::uint64_t waiting = 0;
	std::uint64_t rejected = 0;
	// Of latency-critical tasks.
	std::uint64_t slo_violations = 0;
	double p50_latency_us = 0;
	double p99_latency_us = 0;
	// Of best-effort tasks.
	double best_effort_p50_us = 0;
	double best_effort_p99_us = 0;
	// Of the requests of the TSG that are done, from begin to done, as zernel counts them.
	double request_p50_us = 0;
	double request_p99_us = 0;
	// Share of the time since the metrics before in which the GPU worked, for any program: 0 to
	// 1. zernel reads that ten times a second at the most; 0 where it has not since.
	double gpu_utilization = 0;
	// Times that zernel switched the GPU for a request of the TSG.
	std::uint64_t total_preemptions = 0;
	// Times that the TSG was taken off the GPU with work left.
	std::uint64_t times_preempted = 0;
	// Requests that zernel took; that had no lane, were refused, lost or forked.
	std::uint64_t requests_begun = 0;
	std::uint64_t requests_idle = 0;
	// Times that zernel refused the level or slice of a task.
	std::uint64_t class_refused = 0;
	TaskMetrics latency_critical;
	TaskMetrics best_effort;
};

} // namespace zernel

#endif // ZERNEL_METRICS_HPP
