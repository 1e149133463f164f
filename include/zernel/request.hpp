// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests for C++17. Errors are exceptions, zernel::Error; no exception crosses the functions of
// C.
#ifndef ZERNEL_REQUEST_HPP
#define ZERNEL_REQUEST_HPP

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <zernel/runtime.h>

// The types behind CUstream and cudaStream_t, and behind CUgraphExec and cudaGraphExec_t.
struct CUstream_st;
struct CUgraphExec_st;

namespace zernel {

// A CUstream, or a cudaStream_t.
using Stream = CUstream_st *;

// A CUgraphExec, or a cudaGraphExec_t.
using GraphExec = CUgraphExec_st *;

// An error: errno, its documented name, and a sentence.
class Error : public std::runtime_error {
public:
	Error(int code, std::string name, const std::string &text)
		: std::runtime_error(text), code_(code), name_(std::move(name))
	{
	}

	// The errno, positive.
	int code() const noexcept { return code_; }

	// Its name, such as ZERNEL_NO_MODULE.
	const std::string &name() const noexcept { return name_; }

private:
	int code_;
	std::string name_;
};

namespace detail {

[[noreturn]] inline void fail(int result)
{
	throw Error(-result, zernel_error_name(), zernel_error());
}

// The result of a function of C that is not negative.
inline int check(int result)
{
	if (result < 0)
		fail(result);
	return result;
}

[[noreturn]] inline void bad_argument(const char *text)
{
	throw Error(EINVAL, "ZERNEL_BAD_ARGUMENT", text);
}

inline std::uint64_t count_ns(std::chrono::nanoseconds time)
{
	if (time.count() < 0)
		bad_argument("a time is negative");
	return static_cast<std::uint64_t>(time.count());
}

} // namespace detail

// The answer to a machine without requests; see the variable ZERNEL in runtime.rst.
enum class Mode : std::uint32_t {
	Environment = ZERNEL_MODE_ENVIRONMENT,
	Auto = ZERNEL_MODE_AUTO,
	Off = ZERNEL_MODE_OFF,
	Require = ZERNEL_MODE_REQUIRE,
};

// The memory of the words that holders wait for; see enum zernel_word.
enum class ReleaseWord : std::uint32_t {
	Auto = ZERNEL_WORD_AUTO,
	Host = ZERNEL_WORD_HOST,
	Gpu = ZERNEL_WORD_GPU,
};

// Options of a runtime; 0 is the usual of each. Their ranges are those of struct zernel_options.
struct Options {
	Mode mode = Mode::Environment;
	std::uint32_t lanes = 0;
	ReleaseWord release_word = ReleaseWord::Auto;
	std::chrono::nanoseconds bound{0};
	std::chrono::nanoseconds linger{0};
	std::uint64_t tsg = 0;
};

// A class: level 0 (most urgent) to 7, and a time slice of 10 to 10,000,000 us, or that of the
// level.
class Class {
public:
	explicit Class(std::uint32_t level, std::optional<std::chrono::microseconds> slice = {})
		: level_(level), slice_(slice)
	{
		if (level > 7)
			detail::bad_argument("the level is above 7");
		if (slice && (slice->count() < 10 || slice->count() > 10000000))
			detail::bad_argument("a time slice has 10 to 10,000,000 us");
	}

	// Latency-critical and best-effort.
	static Class lc() { return Class(0); }
	static Class be() { return Class(7); }

	std::uint32_t level() const noexcept { return level_; }
	std::optional<std::chrono::microseconds> slice() const noexcept { return slice_; }

private:
	std::uint32_t level_;
	std::optional<std::chrono::microseconds> slice_;
};

// The numbers that a preparation time depends on, such as bytes or a batch size: eight at most. The
// unit is the caller's; each number has its place for a key.
class Features {
public:
	static constexpr std::size_t most = ZERNEL_SPEC_FEATURES;

	Features() noexcept = default;
	Features(std::initializer_list<std::int64_t> numbers)
		: Features(numbers.begin(), numbers.size())
	{
	}
	Features(const std::int64_t *numbers, std::size_t count) : count_(count)
	{
		if (count > most)
			detail::bad_argument("there are more than 8 features");
		std::copy_n(numbers, count, numbers_.begin());
	}

	std::size_t count() const noexcept { return count_; }
	const std::array<std::int64_t, most> &numbers() const noexcept { return numbers_; }

private:
	std::array<std::int64_t, most> numbers_{};
	std::size_t count_ = 0;
};

// A kind of requests; see struct zernel_spec. `inline_in`: the stream that wait and holder go into,
// in place of one of the runtime's own. Null is the default stream. `admit`: its expected time on the
// GPU, zero if that is not known, where it is to begin only if its slo is promised
// (zernel_begin_admitted()); not for the requests of graphs.
struct Spec {
	std::uint64_t key = 0;
	std::chrono::nanoseconds expected{0};
	std::chrono::nanoseconds slo{0};
	bool is_exact = false;
	std::optional<Stream> inline_in = {};
	Features features = {};
	std::optional<std::chrono::nanoseconds> admit = {};
};

// A request, for one thread at a time. One that is destroyed before it is ready is cancelled; one
// that is destroyed later is done. It keeps its runtime.
class Request {
public:
	// One that does nothing.
	Request() noexcept = default;
	Request(Request &&other) noexcept
		: runtime_(std::move(other.runtime_)), number_(std::exchange(other.number_, 0)),
		  is_ready_(other.is_ready_), earliest_(other.earliest_)
	{
	}
	Request &operator=(Request &&other) noexcept
	{
		if (this != &other) {
			end();
			runtime_ = std::move(other.runtime_);
			number_ = std::exchange(other.number_, 0);
			is_ready_ = other.is_ready_;
			earliest_ = other.earliest_;
		}
		return *this;
	}
	Request(const Request &) = delete;
	Request &operator=(const Request &) = delete;
	~Request() { end(); }

	// True if it does nothing: the runtime is inert, the request has no lane or was refused, or
	// it is over.
	bool does_nothing() const noexcept { return number_ == 0; }

	// True if zernel did not promise its slo; it does nothing then.
	bool is_late() const noexcept { return earliest_.has_value(); }

	// The shortest slo that would have been promised to one that is late; none would, until other
	// requests are over, where it is zero.
	std::chrono::nanoseconds earliest() const noexcept
	{
		return earliest_.value_or(std::chrono::nanoseconds(0));
	}

	// The time that its preparation will take, as far as zernel can tell.
	std::optional<std::chrono::nanoseconds> predicted() const
	{
		std::uint64_t ns = 0;
		if (number_ != 0)
			detail::check(zernel_predicted(runtime_.get(), number_, &ns));
		if (ns == 0)
			return std::nullopt;
		return std::chrono::nanoseconds(ns);
	}

	// Its data is ready, and its work is about to be launched or has been; best right behind the
	// first launch. Twice is as good as once.
	void ready()
	{
		if (number_ != 0)
			detail::check(zernel_ready(runtime_.get(), number_));
		is_ready_ = true;
	}

	// Its result is there.
	void done()
	{
		if (number_ != 0)
			finish(zernel_done(runtime_.get(), number_));
	}

	// Its result is there when all that is in a stream of the context now is over. An error
	// leaves the request as it was.
	void done_in(Stream stream)
	{
		if (number_ == 0)
			return;
		finish(zernel_done_in(runtime_.get(), number_, stream));
	}

	// It is given up.
	void cancel()
	{
		if (number_ != 0)
			finish(zernel_cancel(runtime_.get(), number_));
	}

private:
	friend class GraphRequests;
	friend class Runtime;

	Request(std::shared_ptr<zernel_runtime> runtime, std::uint64_t number) noexcept
		: runtime_(std::move(runtime)), number_(number)
	{
	}

	void finish(int result)
	{
		detail::check(result);
		number_ = 0;
		runtime_.reset();
	}

	void end() noexcept
	{
		// Nothing is left to do for one that is over.
		if (number_ != 0 && is_ready_)
			zernel_done(runtime_.get(), number_);
		else if (number_ != 0)
			zernel_cancel(runtime_.get(), number_);
		number_ = 0;
	}

	std::shared_ptr<zernel_runtime> runtime_;
	std::uint64_t number_ = 0;
	bool is_ready_ = false;
	std::optional<std::chrono::nanoseconds> earliest_;
};

namespace detail {

// A kind of requests as C has it.
inline zernel_spec raw_of(const Spec &spec)
{
	zernel_spec raw{};
	raw.size = sizeof(raw);
	raw.key = spec.key;
	raw.expected_ns = count_ns(spec.expected);
	raw.slo_ns = count_ns(spec.slo);
	raw.flags = spec.is_exact ? ZERNEL_SPEC_EXACT : 0;
	if (spec.inline_in) {
		raw.flags |= ZERNEL_SPEC_INLINE;
		raw.stream = *spec.inline_in;
	}
	raw.features = static_cast<std::uint32_t>(spec.features.count());
	std::copy(spec.features.numbers().begin(), spec.features.numbers().end(), raw.feature);
	return raw;
}

} // namespace detail

// The requests of a graph, one after the other: each launch is the work of the request that was begun
// before it (Runtime::record()). A launch without a request goes through at once, as does one whose
// request is over. It has a lane until its end and that of its request; the graph must not be launched
// after that. It keeps its runtime. Threads share it, but for its end.
class GraphRequests {
public:
	// Of no graph.
	GraphRequests() noexcept = default;
	GraphRequests(GraphRequests &&other) noexcept
		: runtime_(std::move(other.runtime_)), number_(std::exchange(other.number_, 0))
	{
	}
	GraphRequests &operator=(GraphRequests &&other) noexcept
	{
		if (this != &other) {
			end();
			runtime_ = std::move(other.runtime_);
			number_ = std::exchange(other.number_, 0);
		}
		return *this;
	}
	GraphRequests(const GraphRequests &) = delete;
	GraphRequests &operator=(const GraphRequests &) = delete;
	~GraphRequests() { end(); }

	// The graph can be launched. The CUgraph is kept as long, as CUDA knows its nodes by that.
	// Again, with another one of the same CUgraph: requests are those of the last.
	void instantiated(GraphExec graph)
	{
		check();
		detail::check(zernel_graph_instantiated(runtime_.get(), number_, graph));
	}

	// Begins the request of the next launch: its data is prepared from now on. It never waits. It
	// does nothing while the last one is not over. No other thread launches or
	// destroys the graph meanwhile.
	Request begin(const Spec &spec = {}) const
	{
		check();
		if (spec.admit)
			detail::bad_argument("the request of a graph is not admitted");
		zernel_spec raw = detail::raw_of(spec);
		std::uint64_t number = 0;
		detail::check(zernel_graph_begin(runtime_.get(), number_, &raw, &number));
		return number == 0 ? Request() : Request(runtime_, number);
	}

private:
	friend class Runtime;

	GraphRequests(std::shared_ptr<zernel_runtime> runtime, std::uint64_t number) noexcept
		: runtime_(std::move(runtime)), number_(number)
	{
	}

	void check() const
	{
		if (!runtime_)
			throw Error(EBADR, "ZERNEL_UNKNOWN_GRAPH", "it is of no graph");
	}

	void end() noexcept
	{
		if (runtime_)
			zernel_graph_destroy(runtime_.get(), number_);
		runtime_.reset();
	}

	std::shared_ptr<zernel_runtime> runtime_;
	std::uint64_t number_ = 0;
};

// Counters of a runtime, and those that zernel keeps of its TSG.
using Counters = ::zernel_counters;
using Stats = ::zernel_stats;
using Usage = ::zernel_usage;

class Runtime;

// A class that a part of a program wants for the TSG of a context, as long as this is there. Of
// several in a process the most urgent level holds, and of two the older; when the last is over, the
// TSG has the class again that it had before the first. It keeps its runtime.
class Want {
public:
	// None.
	Want() noexcept = default;
	Want(const Runtime &runtime, const Class &wanted) { change(runtime, wanted); }
	Want(Want &&other) noexcept
		: runtime_(std::move(other.runtime_)), number_(std::exchange(other.number_, 0))
	{
	}
	Want &operator=(Want &&other) noexcept
	{
		if (this != &other) {
			end();
			runtime_ = std::move(other.runtime_);
			number_ = std::exchange(other.number_, 0);
		}
		return *this;
	}
	Want(const Want &) = delete;
	Want &operator=(const Want &) = delete;
	~Want() { end(); }

	// Wants another class from now on; none wants its first. An error changes nothing.
	inline void change(const Runtime &runtime, const Class &wanted);

private:
	void end() noexcept
	{
		if (number_ != 0)
			zernel_drop_class(runtime_.get(), number_);
		number_ = 0;
		runtime_.reset();
	}

	std::shared_ptr<zernel_runtime> runtime_;
	std::uint64_t number_ = 0;
};

// The runtime of a context. Threads share it, and so do copies. It ends with its last copy and
// request; the context must live until then.
class Runtime {
public:
	// For the context that is current in this thread.
	explicit Runtime(const Options &options = {})
	{
		zernel_options raw{};
		raw.size = sizeof(raw);
		raw.mode = static_cast<std::uint32_t>(options.mode);
		raw.lanes = options.lanes;
		raw.release_word = static_cast<std::uint32_t>(options.release_word);
		raw.bound_ns = detail::count_ns(options.bound);
		raw.linger_ns = detail::count_ns(options.linger);
		raw.tsg = options.tsg;
		zernel_runtime *runtime = nullptr;
		detail::check(zernel_attach(&raw, &runtime));
		runtime_ = std::shared_ptr<zernel_runtime>(runtime, zernel_detach);
	}

	// The reason for which its requests do nothing, if they do nothing. Its code is 0.
	std::optional<Error> inert() const
	{
		if (detail::check(zernel_is_inert(runtime_.get())) == 0)
			return std::nullopt;
		return Error(0, zernel_error_name(), zernel_error());
	}

	// The id of the TSG of the context; 0 where it is inert.
	std::uint64_t tsg() const
	{
		std::uint64_t id = 0;
		detail::check(zernel_tsg(runtime_.get(), &id));
		return id;
	}

	// Begins a request: its data is prepared from now on. It never waits.
	Request begin(const Spec &spec = {}) const
	{
		zernel_spec raw = detail::raw_of(spec);
		std::uint64_t number = 0;
		if (spec.admit)
			return begin_admitted(raw, detail::count_ns(*spec.admit));
		detail::check(zernel_begin(runtime_.get(), &raw, &number));
		return number == 0 ? Request() : Request(runtime_, number);
	}

	// Records a request in a stream whose calls are captured for a graph: all that is captured
	// there from now on comes behind its wait and holder. Where the runtime is inert nothing is
	// recorded.
	GraphRequests record(Stream stream) const
	{
		std::uint64_t number = 0;
		detail::check(zernel_graph_record(runtime_.get(), stream, &number));
		return GraphRequests(runtime_, number);
	}

	// Gives the TSG of the context a class, which stays as long as the TSG.
	void set_class(const Class &wanted) const
	{
		detail::check(zernel_set_level(runtime_.get(), wanted.level()));
		if (wanted.slice()) {
			auto us = static_cast<std::uint32_t>(wanted.slice()->count());
			detail::check(zernel_set_timeslice(runtime_.get(), us));
		}
	}

	// Takes level and time slice of the TSG away. One that has none is no error.
	void clear_level() const { detail::check(zernel_clear_level(runtime_.get())); }

	Counters counters() const
	{
		Counters counters{};
		counters.size = sizeof(counters);
		detail::check(zernel_get_counters(runtime_.get(), &counters));
		return counters;
	}

	Stats stats() const
	{
		Stats stats{};
		stats.size = sizeof(stats);
		detail::check(zernel_get_stats(runtime_.get(), &stats));
		return stats;
	}

	// The use of the GPU.
	Usage usage() const
	{
		Usage usage{};
		usage.size = sizeof(usage);
		detail::check(zernel_get_usage(runtime_.get(), &usage));
		return usage;
	}

private:
	friend class Want;

	Request begin_admitted(const zernel_spec &raw, std::uint64_t burst_ns) const
	{
		std::uint64_t number = 0, earliest = 0;
		int result = zernel_begin_admitted(runtime_.get(), &raw, burst_ns, &number, &earliest);
		Request request;
		if (result == -EBUSY)
			request.earliest_ = std::chrono::nanoseconds(earliest);
		else
			detail::check(result);
		return number == 0 ? std::move(request) : Request(runtime_, number);
	}

	std::shared_ptr<zernel_runtime> runtime_;
};

inline void Want::change(const Runtime &runtime, const Class &wanted)
{
	if (number_ != 0 && runtime_ != runtime.runtime_)
		detail::bad_argument("the want is one of another runtime");
	auto us = wanted.slice().value_or(std::chrono::microseconds(0)).count();
	detail::check(zernel_want_class(runtime.runtime_.get(), wanted.level(),
					static_cast<std::uint32_t>(us), &number_));
	runtime_ = runtime.runtime_;
}

} // namespace zernel

#endif // ZERNEL_REQUEST_HPP
