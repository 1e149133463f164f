// SPDX-License-Identifier: MIT OR Apache-2.0
// A call of a task. Nothing here is for programs: see scheduler.hpp.
#ifndef ZERNEL_CALL_HPP
#define ZERNEL_CALL_HPP

#include <atomic>
#include <exception>
#include <functional>
#include <future>
#include <tuple>
#include <type_traits>

#include <zernel/config.hpp>

namespace zernel {
namespace detail {

// A task without its function.
struct Kind {
	TaskType type = TaskType::BestEffort;
	std::uint32_t level = 7; // under the pool's lock, as the next
	bool is_counted = false;
	std::atomic<std::uint64_t> slo_ns{0};
	std::atomic<std::uint64_t> key{0};
};

// A call, of any function.
class Call {
public:
	virtual ~Call() = default;
	// Calls the function, and keeps its result.
	virtual void run(Stream stream) = 0;
	// Gives the result, or an error, to the future.
	virtual void succeed() noexcept = 0;
	virtual void fail(std::exception_ptr error) noexcept = 0;

	Request request;
	std::shared_ptr<Kind> kind;
	std::chrono::steady_clock::time_point submitted;
};

// The type of a call of a function with these arguments.
template <typename Function, typename... Arguments>
struct Shape {
	static constexpr bool is_plain = std::is_invocable_v<Function &, Stream, Arguments...>;
	static constexpr bool is_full =
		std::is_invocable_v<Function &, Stream, Request &, Arguments...>;
	static_assert(is_plain || is_full, "the function of a task takes (stream, arguments...) or "
					   "(stream, request, arguments...)");
	using Result = typename std::conditional_t<
		is_plain, std::invoke_result<Function &, Stream, Arguments...>,
		std::invoke_result<Function &, Stream, Request &, Arguments...>>::type;
};

// A call of a function, with copies of its arguments.
template <typename Function, typename... Arguments>
class CallOf final : public Call {
public:
	using Result = typename Shape<Function, Arguments...>::Result;

	template <typename... From>
	explicit CallOf(std::shared_ptr<Function> function, From &&...from)
		: function_(std::move(function)), arguments_(std::forward<From>(from)...)
	{
	}

	std::future<Result> future() { return promise_.get_future(); }

	void run(Stream stream) override
	{
		auto call = [&](auto &&...arguments) -> Result {
			if constexpr (Shape<Function, Arguments...>::is_plain)
				return std::invoke(*function_, stream, std::move(arguments)...);
			else
				return std::invoke(*function_, stream, request,
						   std::move(arguments)...);
		};
		if constexpr (std::is_void_v<Result>)
			std::apply(call, std::move(arguments_));
		else
			result_.emplace(std::apply(call, std::move(arguments_)));
	}

	void succeed() noexcept override
	{
		try {
			if constexpr (std::is_void_v<Result>)
				promise_.set_value();
			else if constexpr (std::is_reference_v<Result>)
				promise_.set_value(result_->get());
			else
				promise_.set_value(std::move(*result_));
		} catch (...) {
			// Its move has failed.
			fail(std::current_exception());
		}
	}

	void fail(std::exception_ptr error) noexcept override
	{
		promise_.set_exception(std::move(error));
	}

private:
	struct Nothing {};
	using Kept = std::conditional_t<
		std::is_void_v<Result>, Nothing,
		std::conditional_t<
			std::is_reference_v<Result>,
			std::reference_wrapper<std::remove_reference_t<Result>>, Result>>;

	std::shared_ptr<Function> function_;
	std::tuple<Arguments...> arguments_;
	std::optional<Kept> result_;
	std::promise<Result> promise_;
};

} // namespace detail
} // namespace zernel

#endif // ZERNEL_CALL_HPP
