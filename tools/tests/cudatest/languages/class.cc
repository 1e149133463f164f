// SPDX-License-Identifier: MIT OR Apache-2.0
// Classes and metrics of schedulers, in C++.
#include "test.hpp"

using zernel::Class;
using zernel::Want;

// A scheduler takes its class back at its end, and the TSG has again what it had before.
void classes()
{
	Program program;
	Runtime runtime(required());
	auto tsg = runtime.tsg();
	runtime.set_class(Class(5, 600us));
	Config config;
	config.latency_critical_slice = 5000us;
	{
		Scheduler scheduler(config, required());
		CHECK(has_class(tsg, 5, 600));
		auto be = scheduler.create_task(TaskType::BestEffort, [](Stream) { return 1; });
		CHECK(has_class(tsg, 7, 0));
		auto lc = scheduler.create_task(TaskType::LatencyCritical, [](Stream) { return 2; });
		CHECK(has_class(tsg, 0, 5000));
		lc.set_priority(3);
		CHECK(has_class(tsg, 3, 5000));
		be.set_priority(2);
		CHECK(has_class(tsg, 2, 0));
		CHECK(be.submit().get() + lc.submit().get() == 3);
		scheduler.shutdown();
		CHECK(has_class(tsg, 5, 600));
	}
	CHECK(has_class(tsg, 5, 600));
	// By the destructor alone, and with tasks that outlive it.
	auto scheduler = std::make_unique<Scheduler>(config, required());
	auto lc = scheduler->create_task(TaskType::LatencyCritical, [](Stream) {});
	CHECK(has_class(tsg, 0, 5000));
	scheduler.reset();
	CHECK(has_class(tsg, 5, 600));
	runtime.clear_level();
	CHECK(has_class(tsg, -1, 0));
	runtime.clear_level();
	// Wants by hand.
	{
		Want one(runtime, Class(6)), two(runtime, Class(1, 70us));
		CHECK(has_class(tsg, 1, 70));
		two.change(runtime, Class(7));
		CHECK(has_class(tsg, 6, 0));
		Want moved = std::move(one);
		one = Want();
		CHECK(has_class(tsg, 6, 0));
		moved = Want();
		CHECK(has_class(tsg, 7, 0));
		Runtime other(required());
		expect("of another runtime", EINVAL, "ZERNEL_BAD_ARGUMENT",
		       [&] { two.change(other, Class(0)); });
		CHECK(has_class(tsg, 7, 0));
	}
	CHECK(has_class(tsg, -1, 0));
}

// The most urgent of two schedulers of a context has its class; the last gives back what was there.
void two_schedulers()
{
	Program program;
	Runtime runtime(required());
	auto tsg = runtime.tsg();
	runtime.set_class(Class(4));
	auto one = std::make_unique<Scheduler>(Config(), required());
	auto two = std::make_unique<Scheduler>(Config(), required());
	auto be = one->create_task(TaskType::BestEffort, [](Stream) {});
	CHECK(has_class(tsg, 7, 0));
	auto lc = two->create_task(TaskType::LatencyCritical, [](Stream) {});
	CHECK(has_class(tsg, 0, 0));
	// One that begins and ends, and one that ends before the other.
	{
		Scheduler three(Config(), required());
		auto task = three.create_task(TaskType::LatencyCritical, [](Stream) {});
		task.set_priority(1);
	}
	CHECK(has_class(tsg, 0, 0));
	two.reset();
	CHECK(has_class(tsg, 7, 0));
	one.reset();
	CHECK(has_class(tsg, 4, 0));
}

// Figures of a scheduler have the names, units and meanings of Python.
void metrics_of()
{
	Program program;
	Config config;
	config.workers = config.queue = 1;
	Scheduler scheduler(config, required());
	Metrics none = scheduler.get_metrics();
	CHECK(none.submitted == 0 && none.p50_latency_us == 0 && none.request_p50_us == 0);
	Gate gate, entered;
	auto task = scheduler.create_task(TaskType::LatencyCritical, [&](Stream stream, int at) {
		if (at == 0) {
			entered.open();
			gate.pass();
		}
		program.work(stream, 30ms);
		if (at == 2)
			throw std::runtime_error("on purpose");
	});
	task.set_slo(1us);
	auto first = task.submit(0);
	entered.pass();
	auto second = task.submit(1);
	try {
		task.submit(9);
		CHECK(false);
	} catch (const Error &error) {
		CHECK(error.name() == "ZERNEL_QUEUE_FULL");
	}
	Metrics some = scheduler.get_metrics();
	CHECK(some.submitted == 2 && some.running == 1 && some.waiting == 1 && some.rejected == 1);
	CHECK(some.completed + some.failed + some.cancelled == 0);
	gate.open();
	first.get();
	second.get();
	auto third = task.submit(2);
	third.wait();
	auto be = scheduler.create_task(TaskType::BestEffort,
					[&](Stream stream) { program.work(stream, 5ms); });
	be.submit().get();
	Metrics all = scheduler.get_metrics();
	CHECK(all.submitted == 4 && all.completed == 3 && all.failed == 1);
	CHECK(all.running + all.waiting + all.cancelled == 0);
	CHECK(all.latency_critical.submitted == 3 && all.best_effort.submitted == 1);
	// From submit to the result: the wait for the worker is a part of it.
	CHECK(all.slo_violations == 2 && all.best_effort.slo_violations == 0);
	CHECK(all.p50_latency_us >= 30000 && all.p99_latency_us >= all.p50_latency_us);
	CHECK(all.best_effort_p50_us >= 5000 && all.best_effort_p99_us >= all.best_effort_p50_us);
	CHECK(all.requests_begun == 3 && all.requests_idle == 0 && all.total_preemptions > 0);
	CHECK(all.request_p50_us > 0 && all.request_p99_us >= all.request_p50_us);
	// zernel has a later figure some time.
	double utilization = all.gpu_utilization;
	while (utilization == 0)
		utilization = scheduler.get_metrics().gpu_utilization;
	CHECK(utilization > 0 && utilization <= 1);
	auto usage = scheduler.runtime().usage();
	CHECK(usage.busy_ns > 0 && usage.at_ns > 0);
	CHECK(all.times_preempted <= usage.times_preempted);
	CHECK(all.class_refused == 0);
}
