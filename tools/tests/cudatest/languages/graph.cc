// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests as parts of graphs in C++.
#include <sys/wait.h>

#include "capture.h"
#include "test.hpp"

namespace {

// A graph of a kernel that can be launched.
class Graph {
public:
	explicit Graph(const Program &program) : program_(&program) {}
	Graph(const Graph &) = delete;
	Graph &operator=(const Graph &) = delete;
	~Graph() { captured_destroy(&raw_); }

	// Captures what `record` records, and the kernel behind it.
	template <typename F> auto capture(const F &record)
	{
		capture_begin(stream);
		auto recorded = record();
		raw_ = capture_end(&program_->raw, stream, 20000);
		return recorded;
	}

	// The same with the requests of a runtime.
	GraphRequests record(const Runtime &runtime)
	{
		auto requests = capture([&] { return runtime.record(stream); });
		requests.instantiated(exec());
		return requests;
	}

	zernel::GraphExec exec() const { return raw_.exec; }
	void launch() const { CHECK(cuGraphLaunch(raw_.exec, stream) == CUDA_SUCCESS); }
	void wait() const { CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS); }
	bool is_idle() const { return cuStreamQuery(stream) == CUDA_SUCCESS; }

	const Stream stream = stream_new();

private:
	const Program *program_;
	captured raw_{};
};

} // namespace

// Each launch is the work of the request that was begun before it; one without goes through.
void graphs()
{
	constexpr unsigned COUNT = 90;
	Program program;
	Runtime runtime(required());
	Graph graph(program);
	auto first = graph.record(runtime);
	graph.launch();
	graph.wait();
	GraphRequests requests = std::move(first);
	for (unsigned at = 0; at < COUNT; at++) {
		Request request = requests.begin(at % 2 ? later() : now());
		CHECK(!request.does_nothing());
		graph.launch();
		CHECK(!graph.is_idle());
		if (at % 3 == 2) {
			request.cancel();
			graph.wait();
			continue;
		}
		request.ready();
		if (at % 3 == 0)
			request.done_in(graph.stream);
		graph.wait();
		// Dropped, it is done.
		request = Request();
		graph.launch();
		graph.wait();
	}
	requests.begin(later()).cancel();
	auto stats = runtime.stats();
	CHECK(stats.begun == COUNT + 1 && stats.done == COUNT * 2 / 3);
	CHECK(stats.cancelled == COUNT / 3 + 1 && stats.expired == 0 && stats.ended == 0);
	CHECK(runtime.counters().failed_calls == 0);
}

// Lanes, lifetimes, children and inert runtimes.
void graph_ends()
{
	Program program;
	Options options = required();
	options.lanes = 1;
	std::optional<Runtime> runtime(std::in_place, options);
	Graph graph(program);
	{
		auto requests = graph.record(*runtime);
		// The only lane is that of the graph, which has one request at a time.
		CHECK(runtime->begin(later()).does_nothing());
		Request request = requests.begin(later());
		CHECK(!request.does_nothing() && requests.begin(later()).does_nothing());
		CHECK(runtime->counters().no_lane == 2);
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			CHECK(requests.begin(later()).does_nothing());
			expect("a graph in a child of fork()", ECHILD, "ZERNEL_FORKED",
			       [&] { runtime->record(graph.stream); });
			expect("a graph to launch there", ECHILD, "ZERNEL_FORKED",
			       [&] { requests.instantiated(graph.exec()); });
			{
				GraphRequests end = std::move(requests);
			}
			_exit(0);
		}
		int status = 0;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		graph.launch();
		CHECK(!graph.is_idle());
		request.ready();
		graph.wait();
	}
	// Both are over, and so the lane is free.
	CHECK(!runtime->begin(later()).does_nothing());
	// Requests of a graph keep the runtime.
	Graph second(program);
	auto requests = second.record(*runtime);
	runtime.reset();
	Request request = requests.begin(later());
	second.launch();
	requests = GraphRequests();
	CHECK(!request.does_nothing() && !second.is_idle());
	request.ready();
	second.wait();
	request = Request();
	// Off, it is a graph as any other.
	Options off;
	off.mode = Mode::Off;
	Runtime inert(off);
	Graph third(program);
	requests = third.record(inert);
	request = requests.begin();
	third.launch();
	third.wait();
	CHECK(request.does_nothing());
	request.ready();
	request.done();
}

void graph_bad_input()
{
	Program program;
	Options options = required();
	options.lanes = 3;
	Runtime runtime(options);
	Graph graph(program), plain(program), open(program);
	auto requests = graph.record(runtime);
	plain.capture([] { return 0; });
	auto recorded = open.capture([&] { return runtime.record(open.stream); });
	CUgraphExec gone = nullptr;
	{
		Graph other(program);
		other.capture([] { return 0; });
		gone = other.exec();
	}
	Stream destroyed = stream_new();
	CHECK(cuStreamDestroy(destroyed) == 0);
	CUcontext other = nullptr;
	CHECK(cuCtxCreate_v2(&other, 0, 0) == 0);
	Stream foreign = stream_new();
	CHECK(cuCtxSetCurrent(program.raw.context) == 0);
	Request alive = requests.begin(later());
	CHECK(!alive.does_nothing());
	GraphRequests moved = std::move(requests);
	auto before = runtime.counters();
	auto stats = runtime.stats();
	auto row = [&](const char *what, int code, const char *name, auto call) {
		expect(what, code, name, call);
		auto counters = runtime.counters();
		auto told = runtime.stats();
		CHECK(std::memcmp(&counters, &before, sizeof(before)) == 0);
		CHECK(std::memcmp(&told, &stats, sizeof(stats)) == 0);
	};
	expect("a promise to a graph", EINVAL, "ZERNEL_BAD_ARGUMENT", [&] {
		Spec spec = now();
		spec.slo = 9s;
		spec.admit = 1s;
		moved.begin(spec);
	});
	row("record outside a capture", EALREADY, "ZERNEL_NOT_CAPTURING",
	    [&] { runtime.record(plain.stream); });
	row("record in a foreign stream", EREMOTE, "ZERNEL_FOREIGN_STREAM",
	    [&] { runtime.record(foreign); });
	row("record in a destroyed stream", EIO, "ZERNEL_CUDA_FAILED",
	    [&] { runtime.record(destroyed); });
	row("record without a free lane", EBUSY, "ZERNEL_NO_LANE", [&] {
		Graph last(program);
		auto one = last.capture([&] { return runtime.record(last.stream); });
		runtime.record(plain.stream);
	});
	row("no graph to launch", EINVAL, "ZERNEL_BAD_ARGUMENT",
	    [&] { recorded.instantiated(nullptr); });
	row("a graph to launch of another", EBADE, "ZERNEL_FOREIGN_GRAPH",
	    [&] { recorded.instantiated(plain.exec()); });
	row("a destroyed graph to launch", EBADE, "ZERNEL_FOREIGN_GRAPH",
	    [&] { recorded.instantiated(gone); });
	row("a graph with a request under way", EBUSY, "ZERNEL_NO_LANE",
	    [&] { moved.instantiated(graph.exec()); });
	row("a begin before instantiation", ENOEXEC, "ZERNEL_NOT_INSTANTIATED",
	    [&] { recorded.begin(later()); });
	row("a graph without a record", EBADR, "ZERNEL_UNKNOWN_GRAPH",
	    [&] { GraphRequests().begin(later()); });
	row("a graph that has ended", EBADR, "ZERNEL_UNKNOWN_GRAPH",
	    [&] { requests.begin(later()); });
	row("a graph's request in a stream", EINVAL, "ZERNEL_BAD_ARGUMENT", [&] {
		Spec spec = later();
		spec.inline_in = graph.stream;
		moved.begin(spec);
	});
	row("a negative time", EINVAL, "ZERNEL_BAD_ARGUMENT", [&] {
		Spec spec = later();
		spec.slo = -1ns;
		moved.begin(spec);
	});
	// The request that was there all along goes on.
	graph.launch();
	alive.ready();
	graph.wait();
	alive.done();
	CHECK(cuCtxDestroy(other) == 0);
}
