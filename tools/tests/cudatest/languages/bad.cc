// SPDX-License-Identifier: MIT OR Apache-2.0
// Bad input in C++: each has an error of its own, and changes nothing.
#include <array>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "test.hpp"

namespace {

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

// The mapping of the slots of the runtime.
std::pair<unsigned long, unsigned long> slots()
{
	std::ifstream maps("/proc/self/maps");
	const std::string name = "/dev/zernel";
	for (std::string line; std::getline(maps, line);) {
		unsigned long from = 0, to = 0;
		bool is_it = line.size() > name.size() &&
			     line.compare(line.size() - name.size(), name.size(), name) == 0;
		if (is_it && std::sscanf(line.c_str(), "%lx-%lx", &from, &to) == 2)
			return {from, to};
	}
	std::exit(3);
}

} // namespace

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
	auto captured = [](CUstream stream, auto call) {
		CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == 0);
		CUgraph graph = nullptr;
		try {
			call();
		} catch (...) {
			CHECK(cuStreamEndCapture(stream, &graph) == 0);
			CHECK(graph == nullptr || cuGraphDestroy(graph) == 0);
			throw;
		}
	};
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
	row("an unknown mode", EINVAL, bad, [&] { attach([](Options &o) { o.mode = Mode(9); }); });
	row("an unknown release word", EINVAL, bad,
	    [&] { attach([](Options &o) { o.release_word = ReleaseWord(3); }); });
	row("no library for a GPU's word", ENOPKG, "ZERNEL_NO_GPU_WORD", [&] {
		attach([&](Options &o) {
			o.release_word = ReleaseWord::Gpu;
			o.tsg = runtime.tsg();
		});
	});
	row("too many lanes", EINVAL, "ZERNEL_BAD_LANES",
	    [&] { attach([](Options &o) { o.lanes = 65; }); });
	row("a short bound", EINVAL, "ZERNEL_BAD_BOUND",
	    [&] { attach([](Options &o) { o.bound = 1ns; }); });
	row("a long linger", EINVAL, "ZERNEL_BAD_BOUND",
	    [&] { attach([](Options &o) { o.linger = 1h; }); });
	row("a negative bound", EINVAL, bad, [&] { attach([](Options &o) { o.bound = -1ns; }); });
	row("several TSGs", ENOTUNIQ, "ZERNEL_AMBIGUOUS_TSG", [&] { attach([](Options &) {}); });
	row("another TSG", EXDEV, "ZERNEL_WRONG_TSG", [&] { attach([](Options &o) { o.tsg = ~0ull; }); });
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
	row("a mode in the environment", EINVAL, "ZERNEL_BAD_MODE", [&] {
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
	row("a captured stream", EINPROGRESS, "ZERNEL_CAPTURING",
	    [&] { captured(own, [&] { inside(own); }); });
	row("done in a foreign stream", EREMOTE, "ZERNEL_FOREIGN_STREAM",
	    [&] { alive.done_in(foreign); });
	row("done in a destroyed stream", EIO, "ZERNEL_CUDA_FAILED",
	    [&] { alive.done_in(destroyed); });
	row("done in a captured stream", EINPROGRESS, "ZERNEL_CAPTURING",
	    [&] { captured(own, [&] { alive.done_in(own); }); });
	row("a negative time", EINVAL, bad, [&] {
		Spec spec = later();
		spec.slo = -1ns;
		runtime.begin(spec);
	});
	row("too many features", EINVAL, bad, [&] {
		Spec spec = later();
		spec.features = {1, 2, 3, 4, 5, 6, 7, 8, 9};
		runtime.begin(spec);
	});
	row("a promise without a deadline", EINVAL, bad, [&] {
		Spec spec = later();
		spec.admit = 1us;
		runtime.begin(spec);
	});
	row("a level above 7", EINVAL, bad, [&] { runtime.set_class(zernel::Class(8)); });
	row("a short time slice", EINVAL, bad, [&] { runtime.set_class(zernel::Class(0, 9us)); });
	row("a long time slice", EINVAL, bad, [&] { runtime.set_class(zernel::Class(0, 11s)); });
	row("workers", EINVAL, bad, [&] { make([](Config &c) { c.workers = 0; }); });
	row("a queue", EINVAL, bad, [&] { make([](Config &c) { c.queue = 0; }); });
	row("a window", EINVAL, bad, [&] { make([](Config &c) { c.window = 0; }); });
	row("a configuration of no lanes", EINVAL, bad, [&] { make([](Config &c) { c.lanes = 0; }); });
	row("an order", EINVAL, bad,
	    [&] { make([](Config &c) { c.latency_critical_level = 8; }); });
	row("no such device", ENXIO, "ZERNEL_NO_DEVICE", [&] { make([](Config &c) { c.gpu = 99; }); });
	row("a task's level", EINVAL, bad, [&] { task.set_priority(8); });
	row("a task's time", EINVAL, bad, [&] { task.set_slo(-1s); });
	row("a full queue", EAGAIN, "ZERNEL_QUEUE_FULL", [&] { task.submit(false); });
	row("no file", ENOENT, "ZERNEL_CONFIG_UNREADABLE",
	    [] { Config::from_file("/nonexistent/zernel.yaml"); });
	row("an empty name of a file", ENOENT, "ZERNEL_CONFIG_UNREADABLE",
	    [] { Config::from_file(""); });
	row("no YAML", EBADMSG, "ZERNEL_CONFIG_NOT_YAML", [] { config_of("a: ["); });
	row("an unknown field of a file", ENOKEY, "ZERNEL_CONFIG_UNKNOWN_FIELD",
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
	CHECK(metrics.failed == 1 && metrics.latency_critical.completed == 1);
	alive.ready();
	alive.done();
	// A task that outlives its scheduler refuses calls.
	scheduler = Scheduler(Config(), second);
	expect("a closed scheduler", ESHUTDOWN, "ZERNEL_SHUT_DOWN", [&] { task.submit(false); });
	CHECK(cuCtxDestroy(other) == 0);
}

// A child that takes the words of its request away ends by the fault of its own access.
void page_unmapped()
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		// One that is handled is not in the kernel's log, where it would be a fault.
		CHECK(signal(SIGSEGV, [](int fault) { _exit(fault); }) != SIG_ERR);
		Program program;
		Runtime runtime(required());
		Request request = runtime.begin(later());
		CHECK(!request.does_nothing());
		auto [from, to] = slots();
		CHECK(munmap(reinterpret_cast<void *>(from), to - from) == 0);
		CHECK(runtime.counters().begun == 1 && runtime.stats().in_flight == 1);
		request.ready();
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == SIGSEGV);
}

// The words of a request are the program's own, which can store anything to them.
void hostile_words()
{
	constexpr std::uint64_t ROUNDS = 200;
	Program program;
	Runtime runtime(required());
	auto [from, to] = slots();
	auto *words = reinterpret_cast<volatile std::uint32_t *>(from);
	const auto count = (to - from) / sizeof(std::uint32_t);
	CHECK(count >= 5 * 16);
	std::uint32_t random = 7;
	for (std::uint64_t round = 0; round < ROUNDS; round++) {
		Request request = runtime.begin(round % 2 ? later() : now());
		for (unsigned long word = 0; word < 5 * 16; word++) {
			random = random * 1664525 + 1013904223;
			words[word] = random;
		}
		request.ready();
		if (round % 3 == 0)
			request.cancel();
	}
	auto counters = runtime.counters();
	CHECK(counters.begun + counters.refused == ROUNDS);
	CHECK(runtime.stats().begun == counters.begun);
}

// Two runtimes of one context have lanes and requests of their own.
void two_runtimes()
{
	Program program;
	Options options = required();
	options.lanes = 2;
	// Before any holder: a module that is loaded waits for those of its context.
	auto first = std::make_unique<Runtime>(options);
	Runtime second(options);
	std::array<Request, 4> requests;
	for (std::size_t at = 0; at < 4; at++) {
		requests[at] = (at < 2 ? *first : second).begin(later());
		CHECK(!requests[at].does_nothing());
	}
	// Nested begins beyond the lanes do nothing, and are counted.
	for (const Runtime *runtime : {first.get(), &second}) {
		Request more = runtime->begin(later());
		CHECK(more.does_nothing());
		more.ready();
		more.done();
		CHECK(runtime->counters().no_lane == 1);
	}
	CHECK(second.stats().in_flight == 4);
	requests = {};
	// The end of one leaves the other.
	first.reset();
	CHECK(!second.begin(later()).does_nothing());
}
