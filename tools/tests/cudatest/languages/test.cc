// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests of runtime.hpp in C++17: runs the case that its argument names.
#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "test.hpp"

namespace {

void requests()
{
	constexpr unsigned COUNT = 10000;
	Program program;
	Runtime runtime(required());
	CHECK(!runtime.inert() && runtime.tsg() != 0);
	runtime.set_class(zernel::Class(0, 5000us));
	Stream stream = stream_new();
	for (unsigned at = 0; at < COUNT; at++) {
		Request request = runtime.begin(at % 2 ? later() : now());
		CHECK(!request.does_nothing());
		request.ready();
		program.work(stream, 10us);
		switch (at % 3) {
		case 0:
			request.done_in(stream);
			CHECK(request.does_nothing());
			break;
		case 1:
			CHECK(cuStreamSynchronize(stream) == 0);
			request.done();
			break;
		default:
			// Dropped after it is ready: it is done.
			CHECK(cuStreamSynchronize(stream) == 0);
		}
	}
	CHECK(cuStreamSynchronize(stream) == 0);
	// Dropped before it is ready: it is cancelled.
	Request moved = runtime.begin(later());
	Request last = std::move(moved);
	CHECK(moved.does_nothing() && !last.does_nothing());
	last = Request();
	auto counters = runtime.counters();
	CHECK(counters.begun == COUNT + 1 && counters.failed_calls == 0);
	CHECK(counters.no_lane + counters.refused + counters.lost + counters.forked == 0);
	auto stats = runtime.stats();
	CHECK(stats.begun == COUNT + 1 && stats.cancelled == 1);
	CHECK(stats.expired == 0 && stats.ended == 0 && stats.in_flight <= 3);
}

// A request keeps its runtime.
void lifetimes()
{
	Program program;
	Request request;
	{
		Runtime runtime(required());
		Runtime copy = runtime;
		request = copy.begin(later());
		CHECK(!request.does_nothing());
	}
	request.ready();
	request.done();
	CHECK(request.does_nothing());
	request.ready();
	request.done();
	request.cancel();
}

void scheduler()
{
	Program program;
	Config config = config_of("scheduler: {gpu_id: 0}\n"
				  "priorities: {latency_critical: lc, best_effort: 6}\n"
				  "slices: {latency_critical_us: 5000}\n"
				  "resources: {workers: 2, queue: 64}\n"
				  "monitoring: {window: 10}\n");
	CHECK(config.best_effort_level == 6 && config.queue == 64 && config.policy == "fair");
	CHECK(config.latency_critical_slice == 5000us && !config.best_effort_slice);
	Scheduler scheduler(config, required());
	auto lc = scheduler.create_task(TaskType::LatencyCritical, [&](Stream stream, int value) {
		program.work(stream, 50us);
		return value + 1;
	});
	lc.set_slo(10s).set_priority(0);
	auto be = scheduler.create_task(TaskType::BestEffort, [&](void *stream, std::string text) {
		program.work(static_cast<Stream>(stream), 300ms);
		return text + "!";
	});
	auto by_hand = scheduler.create_task(
		TaskType::LatencyCritical,
		[&](Stream stream, Request &request, std::unique_ptr<int> value) {
			request.ready();
			program.work(stream, 50us);
			return *value;
		});
	// A result with a time-out: the work takes longer on the GPU.
	auto slow = be.submit("text");
	CHECK(slow.wait_for(0s) == std::future_status::timeout);
	for (int at = 0; at < 100; at++)
		CHECK(scheduler.submit(lc, at).get() == at + 1);
	CHECK(by_hand.submit(std::make_unique<int>(9)).get() == 9);
	CHECK(slow.wait_for(60s) == std::future_status::ready);
	CHECK(slow.get() == "text!");
	Metrics metrics = scheduler.get_metrics();
	CHECK(metrics.submitted == 102 && metrics.completed == 102 && metrics.failures == 0);
	CHECK(metrics.latency_critical.completed == 101 && metrics.best_effort.completed == 1);
	CHECK(metrics.requests + metrics.no_lane == 101 && metrics.requests > 0);
	CHECK(metrics.total_preemptions > 0 && metrics.class_refused == 0);
	CHECK(metrics.p50_latency_us >= 50 && metrics.p99_latency_us >= metrics.p50_latency_us);
	CHECK(metrics.best_effort.p50_latency_us >= 300000);
	CHECK(metrics.latency_critical.waiting == 0 && metrics.best_effort.waiting == 0);
	CHECK(scheduler.runtime().stats().in_flight <= 4);
}

// Requests inside streams, and many calls of several threads.
void scheduler_inline()
{
	Program program;
	Config config;
	config.is_inline = true;
	config.workers = 3;
	Scheduler scheduler(config, required());
	auto task = scheduler.create_task(
		TaskType::LatencyCritical, [&](Stream stream, Request &request, unsigned value) {
			program.work(stream, 20us);
			request.ready();
			return value;
		});
	std::vector<std::thread> threads;
	for (unsigned thread = 0; thread < 4; thread++) {
		threads.emplace_back([&task, thread] {
			for (unsigned at = 0; at < 50; at++)
				CHECK(task.submit(thread * 1000 + at).get() == thread * 1000 + at);
		});
	}
	for (auto &thread : threads)
		thread.join();
	Metrics metrics = scheduler.get_metrics();
	CHECK(metrics.completed == 200 && metrics.failures == 0);
	CHECK(metrics.requests == 200 && metrics.no_lane == 0);
}

void shutdown()
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
	CHECK(metrics.latency_critical.dropped == 20 && metrics.completed == 1);
	CHECK(scheduler.runtime().stats().in_flight <= 1);
}

void fork_with_a_scheduler()
{
	Program program;
	Scheduler scheduler(Config(), required());
	auto task = scheduler.create_task(TaskType::LatencyCritical, [](Stream) { return 7; });
	CHECK(task.submit().get() == 7);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		expect("a child's call", ECHILD, "ZERNEL_FORKED", [&] { task.submit(); });
		expect("a child's task", ECHILD, "ZERNEL_FORKED", [&] {
			scheduler.create_task(TaskType::BestEffort, [](Stream) {});
		});
		expect("a child's end", ECHILD, "ZERNEL_FORKED", [&] { scheduler.shutdown(); });
		// Its end does not wait for threads that it has not.
		Scheduler copy(std::move(scheduler));
		{
			Scheduler end(std::move(copy));
		}
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(task.submit().get() == 7);
}

// A fault on the GPU arrives in the future, and the scheduler ends in spite of it.
void lost_context()
{
	Program program;
	Scheduler scheduler(Config(), required());
	auto task = scheduler.create_task(TaskType::LatencyCritical, [&](Stream stream) {
		CHECK(program_fail(&program.raw, stream) == 0);
	});
	auto future = task.submit();
	expect("a fault", EIO, "ZERNEL_CUDA_FAILED", [&] { future.get(); });
	CHECK(scheduler.get_metrics().failures == 1);
}

// Off, functions run with streams all the same.
void inert()
{
	Program program;
	Options off;
	off.mode = Mode::Off;
	Scheduler scheduler(Config(), off);
	auto why = scheduler.runtime().inert();
	CHECK(why && why->name() == "ZERNEL_OFF");
	auto task = scheduler.create_task(TaskType::LatencyCritical, [&](Stream stream, Request &of) {
		CHECK(of.does_nothing() && stream != nullptr);
		of.ready();
		program.work(stream, 20us);
		return 3;
	});
	CHECK(task.submit().get() == 3);
	Metrics metrics = scheduler.get_metrics();
	CHECK(metrics.completed == 1 && metrics.requests == 0 && metrics.total_preemptions == 0);
}

// A driver that is too old is as good as none: functions get no stream.
void no_cuda()
{
	CHECK(setenv("FAKECUDA_DRIVER", "11000", 1) == 0);
	Options any;
	any.mode = Mode::Auto;
	Scheduler scheduler(Config(), any);
	auto why = scheduler.runtime().inert();
	CHECK(why && why->name() == "ZERNEL_NO_CUDA");
	auto task = scheduler.create_task(TaskType::LatencyCritical,
					  [](Stream stream) { return stream == nullptr; });
	CHECK(task.submit().get());
	expect("required", ELIBACC, "ZERNEL_NO_CUDA", [] { Scheduler made(Config(), required()); });
}

// Without the privilege for its level a task runs, unless zernel is required.
void privilege()
{
	Program program;
	__user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
	__user_cap_data_struct data[2]{};
	CHECK(syscall(SYS_capget, &header, data) == 0);
	data[0].effective &= ~(1u << CAP_SYS_NICE);
	CHECK(syscall(SYS_capset, &header, data) == 0);
	{
		Scheduler scheduler(Config(), required());
		auto be = scheduler.create_task(TaskType::BestEffort, [](Stream) { return 1; });
		expect("a level", EPERM, "ZERNEL_CALL_FAILED", [&] {
			scheduler.create_task(TaskType::LatencyCritical, [](Stream) {});
		});
		expect("a higher level", EPERM, "ZERNEL_CALL_FAILED", [&] { be.set_priority(0); });
		CHECK(be.submit().get() == 1);
		CHECK(scheduler.get_metrics().class_refused == 0);
	}
	Options any;
	any.mode = Mode::Auto;
	Scheduler scheduler(Config(), any);
	CHECK(!scheduler.runtime().inert());
	auto lc = scheduler.create_task(TaskType::LatencyCritical, [](Stream) { return 2; });
	CHECK(lc.submit().get() == 2);
	Metrics metrics = scheduler.get_metrics();
	CHECK(metrics.class_refused == 1 && metrics.requests == 1);
}

Config with(const std::function<void(Config &)> &change)
{
	Config config;
	change(config);
	return config;
}

Options options_with(const std::function<void(Options &)> &change)
{
	Options options = required();
	change(options);
	return options;
}

void bad_input()
{
	using Row = std::function<void(const char *, int, const char *, std::function<void()>)>;
	Program program;
	Runtime runtime(required());
	Options second = required();
	second.tsg = runtime.tsg();
	Stream own = stream_new(), destroyed = stream_new();
	CHECK(cuStreamDestroy(destroyed) == 0);
	CUcontext other = nullptr;
	CHECK(cuCtxCreate_v2(&other, 0, 0) == 0);
	Stream foreign = stream_new();
	CHECK(cuCtxSetCurrent(program.raw.context) == 0);
	Request alive = runtime.begin(later());
	CHECK(!alive.does_nothing());
	Scheduler scheduler(with([](Config &c) { c.workers = c.queue = 1; }), second);
	Gate gate, entered;
	auto task = scheduler.create_task(TaskType::BestEffort, [&](Stream, bool is_first) {
		if (is_first)
			entered.open();
		gate.pass();
	});
	auto thrower = scheduler.create_task(TaskType::LatencyCritical, [](Stream, int value) {
		if (value == 0)
			throw std::out_of_range("zero");
	});
	auto running = task.submit(true);
	entered.pass();
	auto waiting = task.submit(false);
	auto before = runtime.counters();
	auto stats = runtime.stats();
	auto inside = [&](Stream stream) {
		Spec spec = later();
		spec.inline_in = stream;
		runtime.begin(spec);
	};
	auto attach = [](auto change) { Runtime made(options_with(change)); };
	auto make = [&](auto change) { Scheduler made(with(change), second); };
	int rows = 0;
	Row row = [&](const char *what, int code, const char *name, auto call) {
		expect(what, code, name, call);
		auto counters = runtime.counters();
		auto told = runtime.stats();
		CHECK(std::memcmp(&counters, &before, sizeof(before)) == 0);
		CHECK(std::memcmp(&told, &stats, sizeof(stats)) == 0);
		rows++;
	};
	const char *const bad = "ZERNEL_BAD_ARGUMENT";
	row("a mode", EINVAL, bad, [&] { attach([](Options &o) { o.mode = Mode(9); }); });
	row("lanes", EINVAL, "ZERNEL_BAD_LANES", [&] { attach([](Options &o) { o.lanes = 65; }); });
	row("a bound", EINVAL, "ZERNEL_BAD_BOUND",
	    [&] { attach([](Options &o) { o.bound = 1ns; }); });
	row("a linger", EINVAL, "ZERNEL_BAD_BOUND",
	    [&] { attach([](Options &o) { o.linger = 1h; }); });
	row("negative", EINVAL, bad, [&] { attach([](Options &o) { o.bound = -1ns; }); });
	row("several TSGs", ENOTUNIQ, "ZERNEL_AMBIGUOUS_TSG", [&] { attach([](Options &) {}); });
	row("a TSG", EXDEV, "ZERNEL_WRONG_TSG", [&] { attach([](Options &o) { o.tsg = ~0ull; }); });
	row("no context", EBADF, "ZERNEL_NO_CONTEXT", [&] {
		std::exception_ptr error;
		std::thread([&] {
			try {
				attach([](Options &) {});
			} catch (...) {
				error = std::current_exception();
			}
		}).join();
		if (error)
			std::rethrow_exception(error);
	});
	row("the environment", EINVAL, "ZERNEL_BAD_MODE", [&] {
		CHECK(setenv("ZERNEL", "on", 1) == 0);
		try {
			attach([](Options &o) { o.mode = Mode::Environment; });
		} catch (...) {
			CHECK(unsetenv("ZERNEL") == 0);
			throw;
		}
	});
	row("a foreign stream", EREMOTE, "ZERNEL_FOREIGN_STREAM", [&] { inside(foreign); });
	row("a destroyed stream", EIO, "ZERNEL_CUDA_FAILED", [&] { inside(destroyed); });
	row("a misaligned stream", EIO, "ZERNEL_CUDA_FAILED", [&] {
		inside(reinterpret_cast<Stream>(reinterpret_cast<std::uintptr_t>(own) + 1));
	});
	row("a captured stream", EINPROGRESS, "ZERNEL_CAPTURING", [&] {
		CHECK(cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_GLOBAL) == 0);
		CUgraph graph = nullptr;
		try {
			inside(own);
		} catch (...) {
			CHECK(cuStreamEndCapture(own, &graph) == 0);
			CHECK(graph == nullptr || cuGraphDestroy(graph) == 0);
			throw;
		}
	});
	row("done in a foreign stream", EREMOTE, "ZERNEL_FOREIGN_STREAM",
	    [&] { alive.done_in(foreign); });
	row("done in a destroyed one", EIO, "ZERNEL_CUDA_FAILED",
	    [&] { alive.done_in(destroyed); });
	row("a negative time", EINVAL, bad, [&] {
		Spec spec = later();
		spec.slo = -1ns;
		runtime.begin(spec);
	});
	row("a level", EINVAL, bad, [&] { runtime.set_class(zernel::Class(8)); });
	row("a slice", EINVAL, bad, [&] { runtime.set_class(zernel::Class(0, 9us)); });
	row("workers", EINVAL, bad, [&] { make([](Config &c) { c.workers = 0; }); });
	row("a queue", EINVAL, bad, [&] { make([](Config &c) { c.queue = 0; }); });
	row("a window", EINVAL, bad, [&] { make([](Config &c) { c.window = 0; }); });
	row("no lanes", EINVAL, bad, [&] { make([](Config &c) { c.lanes = 0; }); });
	row("an order", EINVAL, bad,
	    [&] { make([](Config &c) { c.latency_critical_level = 8; }); });
	row("a device", ENXIO, "ZERNEL_NO_DEVICE", [&] { make([](Config &c) { c.gpu = 99; }); });
	row("a task's level", EINVAL, bad, [&] { task.set_priority(8); });
	row("a task's time", EINVAL, bad, [&] { task.set_slo(-1s); });
	row("a full queue", EAGAIN, "ZERNEL_QUEUE_FULL", [&] { task.submit(false); });
	row("no file", ENOENT, "ZERNEL_CONFIG_UNREADABLE",
	    [] { Config::from_file("/nonexistent/zernel.yaml"); });
	row("no YAML", EBADMSG, "ZERNEL_CONFIG_NOT_YAML", [] { config_of("a: ["); });
	row("a field", ENOKEY, "ZERNEL_CONFIG_UNKNOWN_FIELD",
	    [] { config_of("policy: {nam: x}"); });
	row("a type", EPROTOTYPE, "ZERNEL_CONFIG_WRONG_TYPE", [] { config_of("policy: x"); });
	row("a range", ERANGE, "ZERNEL_CONFIG_OUT_OF_RANGE",
	    [] { config_of("preemption: {lanes: 65}"); });
	row("no level", EDOM, "ZERNEL_CONFIG_NO_LEVEL",
	    [] { config_of("priorities: {best_effort: x}"); });
	row("a word", ENOSTR, "ZERNEL_CONFIG_UNKNOWN_WORD", [] { config_of("policy: {name: x}"); });
	CHECK(rows >= 25);
	CHECK(scheduler.get_metrics().best_effort.rejected == 1);
	gate.open();
	running.get();
	waiting.get();
	// An exception of a function arrives in its future, and the next call is as any other.
	auto thrown = thrower.submit(0);
	try {
		thrown.get();
		CHECK(false);
	} catch (const std::out_of_range &error) {
		CHECK(std::strcmp(error.what(), "zero") == 0);
	}
	thrower.submit(1).get();
	Metrics metrics = scheduler.get_metrics();
	CHECK(metrics.failures == 1 && metrics.latency_critical.completed == 1);
	alive.ready();
	alive.done();
	// A task that outlives its scheduler refuses calls.
	scheduler = Scheduler(Config(), second);
	expect("a task that is left", ESHUTDOWN, "ZERNEL_SHUT_DOWN", [&] { task.submit(false); });
	CHECK(cuCtxDestroy(other) == 0);
}

} // namespace

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)();
	} cases[] = {
		{"requests", requests},	  {"lifetimes", lifetimes},
		{"scheduler", scheduler}, {"scheduler_inline", scheduler_inline},
		{"shutdown", shutdown},	  {"fork", fork_with_a_scheduler},
		{"lost", lost_context},	  {"inert", inert},
		{"no_cuda", no_cuda},	  {"privilege", privilege},
		{"bad_input", bad_input},
	};

	for (const auto &one : cases) {
		if (argc == 2 && std::strcmp(argv[1], one.name) == 0) {
			try {
				one.run();
			} catch (const std::exception &error) {
				std::fprintf(stderr, "%s: %s\n", one.name, error.what());
				return 1;
			}
			return 0;
		}
	}
	std::fprintf(stderr, "usage: %s CASE\n", argv[0]);
	return 2;
}
