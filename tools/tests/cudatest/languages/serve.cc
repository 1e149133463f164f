// SPDX-License-Identifier: MIT OR Apache-2.0
// A server and a job in C++, which are processes of their own on one GPU.
#include <poll.h>

#include "test.hpp"

namespace {

// Answers, as a configuration says.
void serve(const Config &config)
{
	constexpr unsigned COUNT = 50;
	Program program;
	Scheduler scheduler(config, required());
	auto task = scheduler.create_task(TaskType::LatencyCritical, [&](Stream stream, unsigned at) {
		std::this_thread::sleep_for(300us);
		program.work(stream, 200us);
		return at;
	});
	for (unsigned at = 0; at < COUNT; at++)
		CHECK(task.submit(at).get() == at);
	Metrics metrics = scheduler.get_metrics();
	CHECK(metrics.completed == COUNT && metrics.failed == 0);
	CHECK(metrics.requests_begun + metrics.requests_idle == (config.preemption ? COUNT : 0));
	CHECK(!config.preemption || (metrics.requests_begun > 0 && metrics.total_preemptions > 0));
}

} // namespace

// Best-effort work until the input ends; it says when it has begun.
void job()
{
	Program program;
	Scheduler scheduler(Config(), required());
	auto task = scheduler.create_task(TaskType::BestEffort, [&](Stream stream) {
		for (int at = 0; at < 4; at++)
			program.work(stream, 1ms);
	});
	pollfd input{STDIN_FILENO, POLLIN, 0};
	for (int round = 0; poll(&input, 1, 0) == 0; round++) {
		task.submit().get();
		if (round == 0)
			CHECK(std::puts("it works") >= 0 && std::fflush(stdout) == 0);
	}
	// Others had the GPU meanwhile, which zernel looks at from time to time.
	for (int at = 0; at < 10000 && scheduler.get_metrics().times_preempted == 0; at++)
		std::this_thread::sleep_for(1ms);
	CHECK(scheduler.get_metrics().times_preempted > 0);
}

void serve_by_class()
{
	Config config;
	config.preemption = false;
	serve(config);
}

void serve_beside() { serve(Config()); }

void serve_inline()
{
	Config config;
	config.is_inline = true;
	serve(config);
}
