// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the sentences for errors.

use super::*;
use proptest::prelude::*;

fn call(call: Call, errno: Errno) -> Error {
    Error::Call { call, errno }
}

#[test]
fn same_errno_means_different_things_to_different_calls() {
    let clear = call(Call::ClassClear, Errno::NODATA);
    assert_eq!(clear.cause(), Cause::NotAssigned);
    assert_eq!(
        clear.to_string(),
        "clear class: the target has no such attribute of its own (ENODATA)"
    );
    assert_eq!(call(Call::Events, Errno::NODATA).cause(), Cause::Other);

    let quota = call(Call::ClassSet, Errno::DQUOT).to_string();
    assert!(quota.contains("lc_admission"), "{quota}");
    let quota = call(Call::SimSubmit, Errno::DQUOT).to_string();
    assert!(quota.contains("items queued"), "{quota}");

    let sharers = call(Call::SimContextCreate, Errno::MLINK);
    assert_eq!(sharers.cause(), Cause::Exhausted);
    assert!(sharers.to_string().ends_with("(EMLINK)"), "{sharers}");
}

#[test]
fn every_documented_error_of_a_class_call_has_its_cause() {
    for (errno, cause) in [
        (Errno::PERM, Cause::NotPermitted),
        (Errno::DQUOT, Cause::Exhausted),
        (Errno::NOSPC, Cause::Exhausted),
        (Errno::NOENT, Cause::NoSuchTarget),
        (Errno::SRCH, Cause::NoSuchTarget),
        (Errno::OPNOTSUPP, Cause::SharedTsg),
        (Errno::BADF, Cause::NoSuchTarget),
        (Errno::INVAL, Cause::Invalid),
        (Errno::TOOBIG, Cause::Unsupported),
        (Errno::NOTTY, Cause::Unsupported),
        (Errno::NOMEM, Cause::Exhausted),
        (Errno::INTR, Cause::Interrupted),
    ] {
        let error = call(Call::ClassSet, errno);
        assert_eq!(error.cause(), cause, "{error}");
        assert_eq!(error.errno(), Some(errno));
    }
}

#[test]
fn every_documented_error_of_a_request_has_its_cause_and_sentence() {
    for (which, errno, cause, said) in [
        (Call::Begin, Errno::CANCELED, Cause::RequestOver, "the gate"),
        (
            Call::Begin,
            Errno::INVAL,
            Cause::Invalid,
            "without a holder",
        ),
        (
            Call::SlotsMap,
            Errno::INVAL,
            Cause::Invalid,
            "number of slots",
        ),
        (
            Call::SlotsMap,
            Errno::DQUOT,
            Cause::Exhausted,
            "quota of slot pages",
        ),
        (
            Call::Begin,
            Errno::NOENT,
            Cause::NoSuchTarget,
            "no such TSG",
        ),
        (
            Call::Begin,
            Errno::NXIO,
            Cause::NoSuchTarget,
            "map its page",
        ),
        (
            Call::Begin,
            Errno::PERM,
            Cause::NotPermitted,
            "CAP_SYS_NICE",
        ),
        (Call::Begin, Errno::AGAIN, Cause::TryAgain, "sleeps"),
        (
            Call::Ready,
            Errno::NXIO,
            Cause::NoSuchTarget,
            "no such slot",
        ),
        (Call::Done, Errno::STALE, Cause::RequestOver, "is over"),
        (Call::Cancel, Errno::STALE, Cause::RequestOver, "(ESTALE)"),
        (
            Call::ListRequests,
            Errno::NOENT,
            Cause::NoSuchTarget,
            "no such TSG",
        ),
        (
            Call::ListRequests,
            Errno::PERM,
            Cause::NotPermitted,
            "CAP_PERFMON",
        ),
    ] {
        let error = call(which, errno);
        assert_eq!(error.cause(), cause, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn a_gate_in_use_has_its_cause_and_sentence() {
    let error = Error::GateInUse { pieces: 2 };
    assert_eq!((error.cause(), error.errno()), (Cause::TryAgain, None));
    assert!(error.to_string().starts_with("2 pieces of work"), "{error}");
}

#[test]
fn every_documented_error_of_a_hint_has_its_cause_and_sentence() {
    for (errno, cause, said) in [
        (Errno::PERM, Cause::NotPermitted, "CAP_SYS_NICE"),
        (Errno::INVAL, Cause::Invalid, "60 s"),
        (Errno::NODATA, Cause::NotAssigned, "machine-learning"),
        (Errno::SRCH, Cause::NoSuchTarget, "no such thread"),
    ] {
        let error = call(Call::Hint, errno);
        assert_eq!(error.cause(), cause, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn every_documented_error_of_a_subscription_has_its_cause_and_sentence() {
    for (errno, cause, said) in [
        (Errno::PERM, Cause::NotPermitted, "CAP_PERFMON"),
        (Errno::INVAL, Cause::Invalid, "1 GiB"),
        (Errno::BADF, Cause::Invalid, "open for reading"),
        (Errno::BUSY, Cause::Busy, "already"),
        (Errno::NXIO, Cause::NoSuchTarget, "no such slot"),
        (Errno::SRCH, Cause::NoSuchTarget, "no such process"),
        (Errno::DQUOT, Cause::Exhausted, "prefetch_readahead_bytes"),
    ] {
        let error = call(Call::Subscribe, errno);
        assert_eq!(error.cause(), cause, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
    let error = call(Call::Unsubscribe, Errno::NOENT);
    assert_eq!(error.cause(), Cause::NoSuchTarget);
    assert!(error.to_string().contains("subscription"), "{error}");
}

#[test]
fn missing_device_is_its_own_cause() {
    for errno in [Errno::NOENT, Errno::NODEV, Errno::NXIO] {
        let error = Error::Open {
            path: "/dev/zernel".into(),
            errno,
        };
        assert_eq!(error.cause(), Cause::NoDevice);
        assert_eq!(
            error.to_string(),
            "/dev/zernel: not there; load the module first (modprobe)"
        );
    }
}

proptest! {
    #[test]
    fn every_errno_of_every_call_has_a_sentence_and_is_kept(
        which in 0..Call::ALL.len(),
        raw in 1..134i32,
    ) {
        let errno = Errno::from_raw_os_error(raw);
        let error = Error::call(Call::ALL[which])(errno);
        let text = error.to_string();
        prop_assert!(text.starts_with(&Call::ALL[which].to_string()));
        prop_assert!(text.len() > Call::ALL[which].to_string().len() + 10, "{}", text);
        prop_assert!(!text.contains('\n'));
        prop_assert_eq!(error.errno(), Some(errno));
    }
}
