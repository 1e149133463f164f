// SPDX-License-Identifier: MIT OR Apache-2.0
// The ends of schedulers and of their tasks, in C++.
#include <malloc.h>

#include "test.hpp"

void shutdown_all()
{
	Program program;
	Config config;
	config.workers = 1;
	// All that waits is run.
	std::vector<std::future<int>> futures;
	{
		Gate gate;
		Scheduler scheduler(config, required());
		auto task = scheduler.create_task(TaskType::LatencyCritical, [&](Stream, int value) {
			gate.pass();
			return value;
		});
		for (int at = 0; at < 20; at++)
			futures.push_back(task.submit(at));
		gate.open();
	}
	for (int at = 0; at < 20; at++)
		CHECK(futures[static_cast<std::size_t>(at)].get() == at);
	// All that waits is dropped.
	Gate gate, entered;
	Scheduler scheduler(config, required());
	auto task = scheduler.create_task(TaskType::LatencyCritical, [&](Stream, bool is_first) {
		if (is_first)
			entered.open();
		gate.pass();
	});
	auto first = task.submit(true);
	entered.pass();
	std::vector<std::future<void>> dropped;
	for (int at = 0; at < 20; at++)
		dropped.push_back(task.submit(false));
	std::thread closing([&] { scheduler.shutdown(Pending::Drop); });
	for (auto &future : dropped)
		expect("a dropped call", ECANCELED, "ZERNEL_DROPPED", [&] { future.get(); });
	gate.open();
	closing.join();
	first.get();
	expect("closed", ESHUTDOWN, "ZERNEL_SHUT_DOWN", [&] { task.submit(false); });
	Metrics metrics = scheduler.get_metrics();
	CHECK(metrics.latency_critical.cancelled == 20 && metrics.completed == 1);
	CHECK(scheduler.runtime().stats().in_flight <= 1);
}

// A function cannot wait for its own end; nothing has changed then.
void shutdown_in_a_task()
{
	Program program;
	Scheduler scheduler(Config(), required());
	auto task = scheduler.create_task(TaskType::LatencyCritical, [&](Stream, Pending pending) {
		expect("a close within its own call", EDEADLK, "ZERNEL_WOULD_DEADLOCK",
		       [&] { scheduler.shutdown(pending); });
		return 5;
	});
	CHECK(task.submit(Pending::Run).get() == 5);
	CHECK(task.submit(Pending::Drop).get() == 5);
	// An exception that the function does not catch arrives in the future.
	auto other = scheduler.create_task(TaskType::BestEffort,
					   [&](Stream) { scheduler.shutdown(); });
	expect("through the future", EDEADLK, "ZERNEL_WOULD_DEADLOCK",
	       [&] { other.submit().get(); });
	CHECK(task.submit(Pending::Run).get() == 5);
	// That of another scheduler is as any call.
	Config config;
	config.workers = 1;
	Scheduler another(config, required());
	auto closer = scheduler.create_task(TaskType::BestEffort,
					    [&](Stream) { another.shutdown(); });
	closer.submit().get();
	CHECK(another.get_metrics().submitted == 0);
	scheduler.shutdown();
	expect("closed", ESHUTDOWN, "ZERNEL_SHUT_DOWN", [&] { task.submit(Pending::Run); });
}

// Each of several ends waits for the calls that run.
void shutdown_twice()
{
	Program program;
	Scheduler scheduler(Config(), required());
	Gate gate, entered;
	std::atomic<bool> is_over{false};
	auto task = scheduler.create_task(TaskType::BestEffort, [&](Stream) {
		entered.open();
		gate.pass();
		is_over = true;
	});
	auto future = task.submit();
	entered.pass();
	std::atomic<int> early{0}, ended{0};
	std::vector<std::thread> threads;
	for (int at = 0; at < 4; at++) {
		threads.emplace_back([&, at] {
			scheduler.shutdown(at % 2 ? Pending::Drop : Pending::Run);
			early += !is_over;
			ended++;
		});
	}
	// All of them have begun when calls are refused; those behind the first have no thread to
	// join.
	for (bool is_closed = false; !is_closed;) {
		try {
			scheduler.create_task(TaskType::BestEffort, [](Stream) {});
			std::this_thread::yield();
		} catch (const Error &error) {
			CHECK(error.name() == "ZERNEL_SHUT_DOWN");
			is_closed = true;
		}
	}
	std::thread last([&] {
		scheduler.shutdown();
		early += !is_over;
		ended++;
	});
	CHECK(future.wait_for(50ms) == std::future_status::timeout && ended == 0);
	gate.open();
	for (auto &thread : threads)
		thread.join();
	last.join();
	CHECK(early == 0 && ended == 5);
	future.get();
	scheduler.shutdown();
}

// A scheduler whose last owner is a function, or what it keeps, ends without waiting for itself, and
// all that was submitted still runs.
void end_in_a_task()
{
	Program program;
	Config config;
	config.workers = 1;
	for (int round = 0; round < 20; round++) {
		auto owner = std::make_shared<Scheduler>(config, required());
		auto tsg = owner->runtime().tsg();
		Gate gate;
		auto task = owner->create_task(
			TaskType::LatencyCritical,
			[&gate](Stream, std::shared_ptr<Scheduler> kept, int value) {
				gate.pass();
				kept.reset();
				return value;
			});
		auto first = task.submit(owner, 1);
		auto second = task.submit(nullptr, 2);
		auto other = owner->create_task(TaskType::BestEffort, [](Stream) { return 3; });
		auto third = other.submit();
		CHECK(has_class(tsg, 0, 0));
		owner.reset();
		gate.open();
		CHECK(first.get() == 1 && second.get() == 2 && third.get() == 3);
		expect("left", ESHUTDOWN, "ZERNEL_SHUT_DOWN", [&] { task.submit(nullptr, 4); });
		// The last thread takes the class back, and ends the runtime after that.
		while (class_of(tsg).level != -1 || count_mappings() != 0)
			std::this_thread::yield();
	}
	// As the end of what an argument keeps, after the function.
	auto owner = std::make_shared<Scheduler>(config, required());
	auto tsg = owner->runtime().tsg();
	auto task = owner->create_task(TaskType::BestEffort,
				       [](Stream, const std::shared_ptr<Scheduler> &) {});
	Gate gate;
	auto waiter = owner->create_task(TaskType::BestEffort, [&](Stream) { gate.pass(); });
	auto before = waiter.submit();
	auto future = task.submit(std::move(owner));
	gate.open();
	future.get();
	before.get();
	while (class_of(tsg).level != -1 || count_mappings() != 0)
		std::this_thread::yield();
}

// Tasks that are gone leave nothing behind.
void many_tasks()
{
	constexpr int COUNT = 20000;
	Program program;
	Scheduler scheduler(Config(), required());
	auto tsg = scheduler.runtime().tsg();
	CHECK(has_class(tsg, -1, 0));
	auto kept = scheduler.create_task(TaskType::BestEffort, [](Stream) { return 1; });
	auto bytes = [] { return mallinfo2().uordblks; };
	std::size_t before = 0;
	for (int at = 0; at < COUNT; at++) {
		auto task = scheduler.create_task(TaskType::BestEffort, [at](Stream) { return at; });
		if (at % 1000 == 0)
			CHECK(task.submit().get() == at);
		if (at == COUNT / 2)
			before = bytes();
	}
	// Each of them would take more than 48 bytes.
	std::size_t after = bytes();
	CHECK(after < before + COUNT / 2 * 48 / 4);
	CHECK(kept.submit().get() == 1);
	// The class is that of the most urgent task that is there.
	CHECK(has_class(tsg, 7, 0));
	{
		auto urgent = scheduler.create_task(TaskType::LatencyCritical, [](Stream) {});
		CHECK(has_class(tsg, 0, 0));
		auto copy = urgent;
		copy.set_priority(2);
		CHECK(has_class(tsg, 2, 0));
	}
	CHECK(has_class(tsg, 7, 0));
	// A call keeps its task.
	Gate gate, entered;
	auto future = scheduler
			      .create_task(TaskType::LatencyCritical,
					   [&](Stream) {
						   entered.open();
						   gate.pass();
					   })
			      .submit();
	entered.pass();
	CHECK(has_class(tsg, 0, 0));
	gate.open();
	future.get();
	while (class_of(tsg).level != 7)
		std::this_thread::yield();
}
