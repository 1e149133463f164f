// SPDX-License-Identifier: MIT OR Apache-2.0
// All of runtime.hpp that works on a machine without zernel and without a GPU, in C++17: runs the case
// that its argument names, for tools that look at memory and threads.
#include <array>

#include "test.hpp"

namespace {

Options off()
{
	Options options;
	options.mode = Mode::Off;
	return options;
}

// Several threads make tasks, submit calls and ask for metrics, while the scheduler goes on.
void scheduler()
{
	Config config;
	config.workers = 3;
	Scheduler scheduler(config, off());
	auto shared = scheduler.create_task(TaskType::LatencyCritical, [](Stream stream, int value) {
		CHECK(stream == nullptr);
		return value + 1;
	});
	std::vector<std::thread> threads;
	for (int thread = 0; thread < 4; thread++) {
		threads.emplace_back([&, thread] {
			for (int at = 0; at < 100; at++) {
				auto own = scheduler.create_task(
					TaskType::BestEffort,
					[](Stream, Request &request, std::string text) {
						request.ready();
						if (text.empty())
							throw std::out_of_range("empty");
						return text;
					});
				own.set_slo(1ms).set_priority(thread % 2 ? 7 : 6).set_key(9);
				shared.set_priority(static_cast<std::uint32_t>(thread));
				auto text = own.submit(std::string(at % 2 ? "text" : ""));
				CHECK(shared.submit(at).get() == at + 1);
				try {
					CHECK(text.get() == "text");
				} catch (const std::out_of_range &) {
					CHECK(at % 2 == 0);
				}
				CHECK(scheduler.get_metrics().submitted > 0);
			}
		});
	}
	for (auto &thread : threads)
		thread.join();
	Metrics metrics = scheduler.get_metrics();
	CHECK(metrics.submitted == 800 && metrics.completed == 600 && metrics.failed == 200);
}

// All ends of schedulers, with calls under way.
void ends()
{
	Config config;
	config.workers = 2;
	for (int round = 0; round < 30; round++) {
		Gate gate;
		auto owner = std::make_shared<Scheduler>(config, off());
		auto task = owner->create_task(
			TaskType::LatencyCritical,
			[&gate](Stream, std::shared_ptr<Scheduler> kept, int value) {
				gate.pass();
				if (kept)
					expect("in a task", EDEADLK, "ZERNEL_WOULD_DEADLOCK",
					       [&] { kept->shutdown(); });
				return value;
			});
		std::vector<std::future<int>> futures;
		for (int at = 0; at < 6; at++)
			futures.push_back(task.submit(round % 3 == 0 ? owner : nullptr, at));
		std::vector<std::thread> threads;
		if (round % 3 == 1) {
			for (int at = 0; at < 3; at++)
				threads.emplace_back([owner] { owner->shutdown(); });
		}
		if (round % 3 == 2)
			threads.emplace_back([owner] { owner->shutdown(Pending::Drop); });
		gate.open();
		// With round % 3 == 0 a thread of its own may be the last that knows it.
		owner.reset();
		for (auto &thread : threads)
			thread.join();
		for (auto &future : futures) {
			try {
				future.get();
			} catch (const Error &error) {
				CHECK(round % 3 == 2 && error.name() == "ZERNEL_DROPPED");
			}
		}
		expect("over", ESHUTDOWN, "ZERNEL_SHUT_DOWN", [&] { task.submit(nullptr, 0); });
	}
}

void requests()
{
	Runtime runtime(off());
	CHECK(runtime.inert()->name() == "ZERNEL_OFF" && runtime.tsg() == 0);
	zernel::Want want(runtime, zernel::Class::lc()), other(runtime, zernel::Class::be());
	want = std::move(other);
	runtime.set_class(zernel::Class(0, 200us));
	runtime.clear_level();
	Spec sized = now();
	sized.features = {1 << 20, -3};
	CHECK(sized.features.count() == 2 && sized.features.numbers()[1] == -3);
	CHECK(runtime.begin(sized).does_nothing());
	for (int at = 0; at < 100; at++) {
		Request request = runtime.begin(at % 2 ? later() : now());
		CHECK(request.does_nothing() && !request.predicted());
		request.ready();
		Request moved = std::move(request);
		if (at % 3 == 0)
			moved.done_in(nullptr);
	}
	GraphRequests graph = runtime.record(nullptr), last;
	expect("no instance", ENOEXEC, "ZERNEL_NOT_INSTANTIATED", [&] { graph.begin(); });
	// Nothing is recorded in it, so nobody looks at it.
	graph.instantiated(reinterpret_cast<zernel::GraphExec>(&runtime));
	std::vector<std::thread> threads;
	for (int thread = 0; thread < 4; thread++)
		threads.emplace_back([&] {
			for (int at = 0; at < 100; at++)
				graph.begin(now()).ready();
		});
	for (auto &thread : threads)
		thread.join();
	last = std::move(graph);
	CHECK(last.begin().does_nothing());
	expect("no graph", EBADR, "ZERNEL_UNKNOWN_GRAPH", [&] { graph.begin(); });
	CHECK(runtime.counters().begun == 0 && runtime.stats().begun == 0);
	CHECK(runtime.usage().busy_ns == 0);
	expect("a field", ENOKEY, "ZERNEL_CONFIG_UNKNOWN_FIELD",
	       [] { config_of("policy: {nam: x}"); });
	CHECK(config_of("resources: {workers: 5}").workers == 5);
}

} // namespace

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)();
	} cases[] = {{"scheduler", scheduler}, {"ends", ends}, {"requests", requests}};

	for (const auto &one : cases) {
		if (argc == 2 && std::strcmp(argv[1], one.name) == 0) {
			one.run();
			return 0;
		}
	}
	std::fprintf(stderr, "usage: %s CASE\n", argv[0]);
	return 2;
}
