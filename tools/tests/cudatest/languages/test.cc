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
	{
		// The library of CUDA is open from the first time on.
		Runtime first(required());
	}
	unsigned files = count_files();
	std::optional<Runtime> kept(std::in_place, required());
	Runtime &runtime = *kept;
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
	kept.reset();
	CHECK(count_mappings() == 0 && count_files() == files);
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

// Holders that wait for a word in memory of the GPU, by GDRCopy.
void gpu_word()
{
	Program program;
	Config config = config_of("preemption: {release_word: gpu}\n");
	CHECK(config.release_word == ReleaseWord::Gpu);
	Scheduler scheduler(config, required());
	auto task = scheduler.create_task(TaskType::LatencyCritical, [&](Stream stream, int value) {
		program.work(stream, 50us);
		return value + 1;
	});
	for (int at = 0; at < 20; at++)
		CHECK(task.submit(at).get() == at + 1);
	CHECK(scheduler.get_metrics().requests_begun == 20);
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
	CHECK(metrics.submitted == 102 && metrics.completed == 102 && metrics.failed == 0);
	CHECK(metrics.latency_critical.completed == 101 && metrics.best_effort.completed == 1);
	CHECK(metrics.requests_begun + metrics.requests_idle == 101 && metrics.requests_begun > 0);
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
	CHECK(metrics.completed == 200 && metrics.failed == 0);
	CHECK(metrics.requests_begun == 200 && metrics.requests_idle == 0);
}

void fork_with_a_scheduler()
{
	Program program;
	Scheduler scheduler(Config(), required());
	Runtime runtime(required());
	auto task = scheduler.create_task(TaskType::LatencyCritical, [](Stream) { return 7; });
	CHECK(task.submit().get() == 7);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		expect("a class in a child of fork()", ECHILD, "ZERNEL_FORKED",
		       [&] { runtime.set_class(zernel::Class(7)); });
		expect("a call in a child of fork()", ECHILD, "ZERNEL_FORKED", [&] { task.submit(); });
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

// Deadlines that are promised, with the tunable order at edf.
void admitted()
{
	Program program;
	Runtime runtime(required());
	runtime.set_class(zernel::Class::lc());
	Spec spec = now();
	// One without a history of bursts.
	spec.key = static_cast<std::uint64_t>(getpid());
	spec.slo = 9s;
	spec.admit = 3s;
	Request first = runtime.begin(spec);
	CHECK(!first.does_nothing() && !first.is_late() && first.earliest() == 0s);
	spec.slo = 2s;
	spec.admit = 1s;
	Request late = runtime.begin(spec);
	CHECK(late.does_nothing() && late.is_late());
	CHECK(late.earliest() > 2s && late.earliest() < 9s);
	late.ready();
	late.done();
	spec.slo = late.earliest();
	Request second = runtime.begin(spec);
	CHECK(!second.does_nothing() && !second.is_late());
	for (Request *request : {&first, &second}) {
		request->ready();
		request->done();
	}
	late = std::move(second);
	CHECK(!late.is_late() && runtime.counters().refused == 1 && runtime.stats().done == 2);
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
	CHECK(scheduler.get_metrics().failed == 1);
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
	CHECK(metrics.completed == 1 && metrics.requests_begun == 0 && metrics.total_preemptions == 0);
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
	CHECK(metrics.class_refused == 1 && metrics.requests_begun == 1);
}

} // namespace

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)();
	} cases[] = {
		{"gpu_word", gpu_word},
		{"requests", requests},	  {"lifetimes", lifetimes},
		{"scheduler", scheduler}, {"scheduler_inline", scheduler_inline},
		{"fork", fork_with_a_scheduler},
		{"lost", lost_context},	  {"inert", inert},
		{"no_cuda", no_cuda},	  {"privilege", privilege},
		{"admitted", admitted},
		{"bad_input", bad_input}, {"page_unmapped", page_unmapped},
		{"hostile_words", hostile_words}, {"two_runtimes", two_runtimes},
		{"shutdown", shutdown_all}, {"shutdown_in_a_task", shutdown_in_a_task},
		{"shutdown_twice", shutdown_twice}, {"end_in_a_task", end_in_a_task},
		{"many_tasks", many_tasks}, {"classes", classes},
		{"two_schedulers", two_schedulers}, {"metrics", metrics_of},
		{"graphs", graphs}, {"graph_ends", graph_ends},
		{"graph_bad_input", graph_bad_input}, {"job", job},
		{"serve_by_class", serve_by_class}, {"serve_beside", serve_beside},
		{"serve_inline", serve_inline},
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
