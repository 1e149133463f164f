// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that know nothing of zernel, with requests by `zernelctl run --requests auto`.

mod costs;
mod ends;
mod lab;
mod meet;
mod same;
mod timed;
mod ways;

use testkit::harness::{case, Suite};

use crate::lab::LOADED;

/// The suite.
pub const SUITE: Suite = Suite::new(
    "auto",
    &[
        case("each_way_to_the_driver_is_seen", ways::each_way),
        case("names_are_looked_up_as_ever", ways::look_up),
        case("the_library_needs_and_shows_little", ways::the_file),
        case("requests_of_a_program_that_copies", ways::requests),
        case("classes_alone_without_the_option", ways::classes_alone),
        case("the_library_must_be_there", ways::no_library),
        case("one_that_never_uses_cuda_opens_nothing", ways::nothing),
        case("threads_have_requests_each", ways::threads),
        case("another_thread_may_wait", ways::two_threads),
        case("data_from_a_socket_may_begin", ways::sockets),
        case("contexts_come_and_go", ways::contexts),
        case("a_program_that_execs", ways::exec),
        case("a_child_uses_cuda_or_does_not", ways::forks),
        case("random_calls_give_the_same", same::random_calls),
        case("calls_that_stall_wait_for_no_request", ends::stalls),
        case(
            "a_kernel_that_is_loaded_late_waits_for_no_request",
            meet::late_kernels,
        ),
        case("a_trigger_does_not_wait_long", meet::slow_data),
        case(
            "lanes_of_requests_that_are_over_are_free",
            meet::lanes_of_others,
        ),
        case("default_streams_are_of_threads", meet::default_streams),
        case("contexts_are_made_at_once", meet::makers),
        case("data_from_files_is_none_from_a_socket", meet::files),
        case("copies_without_work_lose_their_requests", ends::copies),
        case("a_killed_program_leaves_nothing", ends::killed),
        case("it_steps_aside_with_a_sentence", ends::sentences),
        case("calls_and_requests_allocate_nothing", costs::allocations),
    ],
    LOADED,
);

/// Those for a machine whose clock counts instructions.
pub const TIMED: Suite = Suite::new(
    "timed",
    &[
        case("calls_cost_little", timed::costs_of_calls),
        case("requests_that_do_not_pay_cost_nothing", timed::no_loss),
        case("a_copy_hides_a_long_switch", timed::gain),
    ],
    LOADED,
);
