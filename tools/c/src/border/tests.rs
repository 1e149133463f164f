// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the functions on a machine without requests, with pointers and structures of all kinds.

use super::class::*;
use super::graph::*;
use super::told::*;
use super::*;
use std::ffi::CStr;
use std::ptr;

const INVAL: c_int = -22;
const STALE: c_int = -116;
const TOO_BIG: c_int = -7;
/// A graph to launch, which nobody looks at.
const EXEC: *mut c_void = ptr::without_provenance_mut(64);

fn last_name() -> &'static str {
    // SAFETY: It is valid until the next call of this thread; the tests copy it before.
    let name = unsafe { CStr::from_ptr(zernel_error_name()) };
    match name.to_str().unwrap() {
        "ZERNEL_BAD_ARGUMENT" => "ZERNEL_BAD_ARGUMENT",
        "ZERNEL_BAD_SIZE" => "ZERNEL_BAD_SIZE",
        "ZERNEL_REQUEST_OVER" => "ZERNEL_REQUEST_OVER",
        "ZERNEL_BAD_LANES" => "ZERNEL_BAD_LANES",
        "ZERNEL_BAD_BOUND" => "ZERNEL_BAD_BOUND",
        "ZERNEL_UNKNOWN_WANT" => "ZERNEL_UNKNOWN_WANT",
        "ZERNEL_UNKNOWN_GRAPH" => "ZERNEL_UNKNOWN_GRAPH",
        "ZERNEL_NOT_INSTANTIATED" => "ZERNEL_NOT_INSTANTIATED",
        "ZERNEL_OFF" => "ZERNEL_OFF",
        other => panic!("{other}"),
    }
}

fn off() -> abi::zernel_options {
    abi::zernel_options {
        size: size_of::<abi::zernel_options>() as u32,
        mode: abi::ZERNEL_MODE_OFF,
        ..Default::default()
    }
}

fn attach(options: &abi::zernel_options) -> Result<*mut abi::zernel_runtime, c_int> {
    let mut runtime = ptr::null_mut();
    // SAFETY: Both are valid.
    match unsafe { zernel_attach(options, &mut runtime) } {
        0 => Ok(runtime),
        error => {
            assert!(runtime.is_null(), "an error changes nothing");
            Err(error)
        }
    }
}

#[test]
fn sizes_are_those_of_the_first_version() {
    assert_eq!(size_of::<abi::zernel_options>(), OPTIONS);
    assert_eq!(std::mem::offset_of!(abi::zernel_spec, features), SPEC);
    assert_eq!(size_of::<abi::zernel_counters>(), COUNTERS);
    assert_eq!(size_of::<abi::zernel_stats>(), STATS);
    assert_eq!(size_of::<abi::zernel_usage>(), USAGE);
}

#[test]
fn options_out_of_range_are_refused() {
    for (options, error, name) in [
        (
            abi::zernel_options { size: 39, ..off() },
            INVAL,
            "ZERNEL_BAD_ARGUMENT",
        ),
        (
            abi::zernel_options { size: 0, ..off() },
            INVAL,
            "ZERNEL_BAD_ARGUMENT",
        ),
        (
            abi::zernel_options { mode: 4, ..off() },
            INVAL,
            "ZERNEL_BAD_ARGUMENT",
        ),
        (
            abi::zernel_options {
                release_word: 3,
                ..off()
            },
            INVAL,
            "ZERNEL_BAD_ARGUMENT",
        ),
        (
            abi::zernel_options { lanes: 65, ..off() },
            INVAL,
            "ZERNEL_BAD_LANES",
        ),
        (
            abi::zernel_options {
                bound_ns: 999,
                ..off()
            },
            INVAL,
            "ZERNEL_BAD_BOUND",
        ),
        (
            abi::zernel_options {
                linger_ns: u64::MAX,
                ..off()
            },
            INVAL,
            "ZERNEL_BAD_BOUND",
        ),
    ] {
        assert_eq!(attach(&options), Err(error), "{options:?}");
        assert_eq!(last_name(), name);
    }
    // SAFETY: A null pointer is refused.
    assert_eq!(unsafe { zernel_attach(&off(), ptr::null_mut()) }, INVAL);
}

#[test]
fn a_longer_structure_holds_zeroes() {
    #[repr(C)]
    struct Longer(abi::zernel_options, u64);
    let mut longer = Longer(off(), 1);
    longer.0.size = size_of::<Longer>() as u32;
    let attach = |longer: &Longer| {
        let mut runtime = ptr::null_mut();
        // SAFETY: It is as long as it says.
        let result = unsafe { zernel_attach(ptr::from_ref(longer).cast(), &mut runtime) };
        // SAFETY: Null, or made here.
        unsafe { zernel_detach(runtime) };
        result
    };
    assert_eq!(attach(&longer), TOO_BIG);
    assert_eq!(last_name(), "ZERNEL_BAD_SIZE");
    longer.1 = 0;
    assert_eq!(attach(&longer), 0);
}

#[test]
fn null_is_refused_everywhere() {
    let none = ptr::null_mut();
    // SAFETY: Null pointers are refused.
    unsafe {
        zernel_detach(none);
        let mut word = 7;
        for result in [
            zernel_is_inert(none),
            zernel_tsg(none, &mut word),
            zernel_begin(none, ptr::null(), &mut word),
            zernel_predicted(none, 0, &mut word),
            zernel_ready(none, 0),
            zernel_done(none, 0),
            zernel_done_in(none, 0, none.cast()),
            zernel_cancel(none, 0),
            zernel_set_level(none, 0),
            zernel_set_timeslice(none, 200),
            zernel_get_counters(none, ptr::null_mut()),
            zernel_get_stats(none, ptr::null_mut()),
            zernel_get_usage(none, ptr::null_mut()),
            zernel_clear_level(none),
            zernel_want_class(none, 0, 0, &mut word),
            zernel_drop_class(none, 0),
            zernel_graph_record(none, ptr::null_mut(), &mut word),
            zernel_graph_instantiated(none, 1, EXEC),
            zernel_graph_begin(none, 1, ptr::null(), &mut word),
            zernel_graph_destroy(none, 1),
        ] {
            assert_eq!(result, INVAL);
            assert_eq!(last_name(), "ZERNEL_BAD_ARGUMENT");
        }
        assert_eq!(word, 7);
        let runtime = attach(&off()).unwrap();
        for result in [
            zernel_tsg(runtime, ptr::null_mut()),
            zernel_begin(runtime, ptr::null(), ptr::null_mut()),
            zernel_predicted(runtime, 0, ptr::null_mut()),
            zernel_get_counters(runtime, ptr::null_mut()),
            zernel_get_stats(runtime, ptr::null_mut()),
            zernel_get_usage(runtime, ptr::null_mut()),
            zernel_want_class(runtime, 0, 0, ptr::null_mut()),
            zernel_want_class(runtime, 8, 0, &mut word),
            zernel_want_class(runtime, 0, 9, &mut word),
            zernel_graph_record(runtime, ptr::null_mut(), ptr::null_mut()),
            zernel_graph_instantiated(runtime, 1, ptr::null_mut()),
            zernel_graph_begin(runtime, 1, ptr::null(), ptr::null_mut()),
            zernel_set_timeslice(runtime, 9),
            zernel_set_timeslice(runtime, 10_000_001),
            zernel_set_level(runtime, 8),
            zernel_set_level(runtime, 256),
        ] {
            assert_eq!(result, INVAL);
        }
        assert_eq!(word, 7);
        zernel_detach(runtime);
    }
}

#[test]
fn an_inert_runtime_takes_everything() {
    let runtime = attach(&off()).unwrap();
    let (mut request, mut word) = (7, 7);
    let spec = abi::zernel_spec {
        size: SPEC as u32,
        key: 1,
        ..Default::default()
    };
    let mut counters = abi::zernel_counters {
        size: COUNTERS as u32,
        begun: 9,
        ..Default::default()
    };
    // SAFETY: All are valid.
    unsafe {
        assert_eq!(zernel_is_inert(runtime), 1);
        assert_eq!(last_name(), "ZERNEL_OFF");
        assert_eq!(zernel_begin(runtime, &spec, &mut request), 0);
        assert_eq!(request, 0);
        assert_eq!(zernel_begin(runtime, ptr::null(), &mut request), 0);
        assert_eq!(zernel_predicted(runtime, request, &mut word), 0);
        assert_eq!(word, 0);
        assert_eq!(zernel_ready(runtime, request), 0);
        assert_eq!(zernel_done_in(runtime, request, ptr::null_mut()), 0);
        assert_eq!(zernel_done(runtime, request), 0);
        assert_eq!(zernel_cancel(runtime, request), 0);
        for number in [1, 129, u64::MAX] {
            assert_eq!(zernel_ready(runtime, number), STALE);
            assert_eq!(last_name(), "ZERNEL_REQUEST_OVER");
            assert_eq!(zernel_done(runtime, number), STALE);
            assert_eq!(zernel_cancel(runtime, number), STALE);
            assert_eq!(zernel_predicted(runtime, number, &mut word), STALE);
        }
        assert_eq!(zernel_tsg(runtime, &mut word), 0);
        assert_eq!(word, 0);
        assert_eq!(zernel_set_level(runtime, 0), 0);
        assert_eq!(zernel_get_counters(runtime, &mut counters), 0);
        assert_eq!((counters.begun, counters.size), (0, COUNTERS as u32));
        assert_eq!(zernel_set_timeslice(runtime, 10), 0);
        let mut stats = abi::zernel_stats {
            size: STATS as u32,
            reserved: 1,
            begun: 9,
            ..Default::default()
        };
        assert_eq!(zernel_get_stats(runtime, &mut stats), INVAL);
        assert_eq!(stats.begun, 9);
        stats.reserved = 0;
        assert_eq!(zernel_get_stats(runtime, &mut stats), 0);
        assert_eq!((stats.begun, stats.size), (0, STATS as u32));
        zernel_detach(runtime);
    }
    assert_eq!(zernel_version(), 4);
}

#[test]
fn features_arrive_and_bad_ones_are_refused() {
    let good = abi::zernel_spec {
        size: size_of::<abi::zernel_spec>() as u32,
        features: 2,
        feature: [i64::MIN, 7, 0, 0, 0, 0, 0, 0],
        ..Default::default()
    };
    let told = Spec::new().features(Features::new(&[i64::MIN, 7]).unwrap());
    assert_eq!((check(&good), spec(&good)), (Ok(()), told));
    let none = abi::zernel_spec::default();
    assert_eq!((check(&none), spec(&none)), (Ok(()), Spec::new()));
    let all = abi::zernel_spec {
        features: 8,
        feature: [-1; 8],
        ..good
    };
    assert_eq!(check(&all), Ok(()));
    let runtime = attach(&off()).unwrap();
    let mut request = 7;
    let mut begin = |spec: &abi::zernel_spec| {
        // SAFETY: Both are valid.
        unsafe { zernel_begin(runtime, spec, &mut request) }
    };
    let mut beyond = good;
    beyond.feature[2] = 1;
    let mut last = good;
    last.feature[7] = i64::MIN;
    for bad in [
        abi::zernel_spec {
            features: 9,
            ..good
        },
        abi::zernel_spec {
            features: u32::MAX,
            ..good
        },
        abi::zernel_spec {
            features: 1,
            ..good
        },
        abi::zernel_spec {
            reserved: 1,
            ..good
        },
        beyond,
        last,
    ] {
        assert_eq!(begin(&bad), INVAL, "{bad:?}");
        assert_eq!(last_name(), "ZERNEL_BAD_ARGUMENT");
    }
    // A program of the first version has none: its structure ends before them.
    let old = abi::zernel_spec {
        size: SPEC as u32,
        features: 9,
        ..good
    };
    assert_eq!(begin(&old), 0);
    assert_eq!((begin(&good), request), (0, 0));
    // SAFETY: It is attached.
    unsafe { zernel_detach(runtime) };
}

#[test]
fn wants_have_numbers_until_they_are_over() {
    let runtime = attach(&off()).unwrap();
    let other = attach(&off()).unwrap();
    let (mut one, mut two, mut gone) = (0, 0, 99);
    // SAFETY: All are valid.
    unsafe {
        assert_eq!(zernel_want_class(runtime, 0, 0, &mut one), 0);
        assert_eq!(zernel_want_class(runtime, 7, 200, &mut two), 0);
        assert!(one != 0 && two != 0 && one != two);
        let before = one;
        assert_eq!(zernel_want_class(runtime, 3, 0, &mut one), 0);
        assert_eq!(one, before);
        assert_eq!(zernel_drop_class(runtime, one), 0);
        for result in [
            zernel_drop_class(runtime, one),
            zernel_drop_class(runtime, 0),
            zernel_drop_class(other, two),
            zernel_want_class(runtime, 0, 0, &mut one),
            zernel_want_class(other, 0, 0, &mut gone),
        ] {
            assert_eq!(result, -43);
            assert_eq!(last_name(), "ZERNEL_UNKNOWN_WANT");
        }
        assert_eq!((one, gone), (before, 99));
        assert_eq!(zernel_clear_level(runtime), 0);
        zernel_detach(other);
        // Its other want is over with it.
        zernel_detach(runtime);
    }
}

#[test]
fn graphs_have_numbers_until_they_are_over() {
    let runtime = attach(&off()).unwrap();
    let other = attach(&off()).unwrap();
    let (mut one, mut two, mut request) = (0, 0, 7);
    let inside = abi::zernel_spec {
        size: SPEC as u32,
        flags: abi::ZERNEL_SPEC_INLINE,
        ..Default::default()
    };
    // SAFETY: All are valid.
    unsafe {
        assert_eq!(zernel_graph_record(runtime, ptr::null_mut(), &mut one), 0);
        assert_eq!(zernel_graph_record(runtime, ptr::null_mut(), &mut two), 0);
        assert!(one != 0 && two != 0 && one != two);
        let begin = |graph, request| zernel_graph_begin(runtime, graph, ptr::null(), request);
        assert_eq!(begin(one, &mut request), -8);
        assert_eq!(last_name(), "ZERNEL_NOT_INSTANTIATED");
        for _ in 0..2 {
            assert_eq!(zernel_graph_instantiated(runtime, one, EXEC), 0);
        }
        let result = zernel_graph_begin(runtime, one, &inside, &mut request);
        assert_eq!((result, last_name()), (INVAL, "ZERNEL_BAD_ARGUMENT"));
        assert_eq!(request, 7);
        assert_eq!((begin(one, &mut request), request), (0, 0));
        request = 7;
        assert_eq!(zernel_graph_destroy(runtime, one), 0);
        for result in [
            begin(one, &mut request),
            begin(0, &mut request),
            zernel_graph_begin(other, two, ptr::null(), &mut request),
            zernel_graph_instantiated(runtime, one, EXEC),
            zernel_graph_instantiated(other, two, EXEC),
            zernel_graph_destroy(runtime, one),
            zernel_graph_destroy(other, two),
        ] {
            assert_eq!(result, -53);
            assert_eq!(last_name(), "ZERNEL_UNKNOWN_GRAPH");
        }
        assert_eq!(request, 7);
        zernel_detach(other);
        zernel_detach(runtime);
    }
}

/// A structure as a later version of the library will have it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Grown {
    size: u32,
    reserved: u32,
    first: u64,
    later: [u64; 2],
}

// SAFETY: Integers.
unsafe impl Sized32 for Grown {}

/// Stores a result at the begin of eight words whose first says a size. Returns the words.
fn stored(size: u32, words: [u64; 8]) -> Result<[u64; 8], Fault> {
    let mut words = words;
    words[0] = size.into();
    // SAFETY: The words are longer than any size that is tried, and valid for reads and writes.
    let place =
        unsafe { Place::<Grown>::at(words.as_mut_ptr().cast(), 16, |asked| asked.reserved) };
    place?.store(&Grown {
        size,
        reserved: 0,
        first: 1,
        later: [2, 3],
    });
    Ok(words)
}

#[test]
fn a_result_goes_no_further_than_its_place() {
    const OTHERS: u64 = 0x5a5a_5a5a_5a5a_5a5a;
    // Programs of the first version, of one between, and of this one: what is behind is others'.
    for (size, parts) in [(16, 2), (24, 3), (32, 4)] {
        let words = [OTHERS; 8];
        let told = [u64::from(size), 1, 2, 3];
        let all = stored(size, words).unwrap();
        assert_eq!(all[..parts], told[..parts], "{size} bytes");
        assert_eq!(all[parts..], words[parts..], "{size} bytes");
    }
    // A program of a later one: the rest is zero, or it is refused.
    let later = [0, 0, 0, 0, 0, 0, OTHERS, OTHERS];
    assert_eq!(stored(48, later), Ok([48, 1, 2, 3, 0, 0, OTHERS, OTHERS]));
    let unknown = [0, 0, 0, 0, 0, 1, OTHERS, OTHERS];
    assert_eq!(stored(48, unknown), Err(Fault::Size(48)));
    assert!(matches!(stored(15, later), Err(Fault::Argument(_))));
}

#[test]
fn results_of_other_sizes() {
    let runtime = attach(&off()).unwrap();
    let mut words = [0_u64; 32];
    type Get<'a> = &'a dyn Fn(*mut u64) -> c_int;
    // SAFETY: The words are longer than any size that is tried.
    let gets: [(usize, Get<'_>); 3] = unsafe {
        [
            (COUNTERS, &|to| zernel_get_counters(runtime, to.cast())),
            (STATS, &|to| zernel_get_stats(runtime, to.cast())),
            (USAGE, &|to| zernel_get_usage(runtime, to.cast())),
        ]
    };
    for (size, get) in gets {
        let (own, longer) = (size as u64, size as u64 + 16);
        words.fill(0);
        words[0] = longer;
        assert_eq!(get(words.as_mut_ptr()), 0);
        assert_eq!(words[0], longer, "the size is the caller's");
        words[size / 8 + 1] = 1;
        assert_eq!(get(words.as_mut_ptr()), TOO_BIG);
        assert_eq!((last_name(), words[size / 8 + 1]), ("ZERNEL_BAD_SIZE", 1));
        // That part is not the structure's.
        words[0] = own;
        assert_eq!(get(words.as_mut_ptr()), 0);
        assert_eq!(words[size / 8 + 1], 1);
        words[0] = own - 1;
        assert_eq!(get(words.as_mut_ptr()), INVAL);
        assert_eq!(words[0], own - 1);
    }
    // SAFETY: It was made here.
    unsafe { zernel_detach(runtime) };
}

#[test]
fn kinds_of_requests_that_are_none_are_refused() {
    let runtime = attach(&off()).unwrap();
    let usual = abi::zernel_spec {
        size: SPEC as u32,
        ..Default::default()
    };
    let mut request = 7;
    for spec in [
        abi::zernel_spec { size: 8, ..usual },
        abi::zernel_spec { flags: 4, ..usual },
        abi::zernel_spec {
            stream: ptr::without_provenance_mut(8),
            ..usual
        },
    ] {
        // SAFETY: All are valid.
        let result = unsafe { zernel_begin(runtime, &spec, &mut request) };
        assert_eq!((result, request), (INVAL, 7), "{spec:?}");
    }
    // SAFETY: It was made here.
    unsafe { zernel_detach(runtime) };
}

#[test]
fn a_panic_stays_inside() {
    let result = call(|| panic!("on purpose: {}", 7));
    assert_eq!(result, -71);
    let [name, text] = [zernel_error_name(), zernel_error()].map(|text| {
        // SAFETY: Both end with a zero.
        unsafe { CStr::from_ptr(text) }
    });
    assert_eq!(name, c"ZERNEL_INTERNAL");
    assert!(text.to_str().unwrap().ends_with("on purpose: 7"));
}
