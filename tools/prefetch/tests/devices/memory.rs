// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the GPU, and functions that are called behind work of a stream.

use std::sync::mpsc::channel;
use std::sync::Arc;

use cuda::{Error, Memory, Status};

use crate::fake::{driver, Knobs};

#[test]
fn bytes_are_copied_within_memory_alone() {
    let knobs = Knobs::turn();
    let (driver, device) = driver();
    let own = driver.primary_context(device).expect("a context");
    let stream = driver.create_usual_stream(own.context());
    let stream = stream.expect("a stream");
    let memory = Memory::new(&driver, own.context(), 100).expect("memory");
    let entered = driver.enter(own.context()).expect("a context");
    let stream = stream.stream();
    let written = memory.write(&entered, stream, 90, &[7; 10]);
    assert_eq!(written, Ok(()));
    let mut bytes = [0; 12];
    assert_eq!(memory.read(&entered, stream, 88, &mut bytes), Ok(()));
    assert_eq!(bytes[2..], [7; 10]);
    for at in [91, 101, usize::MAX] {
        let refused = memory.write(&entered, stream, at, &[8; 10]);
        let error = refused.expect_err("beyond it");
        assert_eq!(error.status(), Some(Status::INVALID_VALUE), "{at}");
        let text = format!("cuMemcpyHtoDAsync: 10 bytes at {at} of 100 (1)");
        assert_eq!(error.to_string(), text);
        let refused = memory.read(&entered, stream, at, &mut bytes[..10]);
        let text = format!("cuMemcpyDtoHAsync: 10 bytes at {at} of 100 (1)");
        assert_eq!(refused.expect_err("beyond it").to_string(), text);
    }
    // A graph would copy when the bytes are gone.
    knobs.set("CAPTURES", "1");
    for refused in [
        memory.write(&entered, stream, 90, &[8; 10]),
        memory.read(&entered, stream, 88, &mut bytes),
    ] {
        let error = refused.expect_err("it is captured");
        assert_eq!(error.status(), Some(Status::CAPTURE_UNSUPPORTED));
    }
    knobs.clear();
    assert_eq!(memory.read(&entered, stream, 88, &mut bytes), Ok(()));
    assert_eq!(bytes[2..], [7; 10]);
}

#[test]
fn a_function_is_called_once_behind_the_stream_or_dropped() {
    let knobs = Knobs::turn();
    let (driver, device) = driver();
    let own = driver.primary_context(device).expect("a context");
    let stream = driver.create_usual_stream(own.context());
    let stream = stream.expect("a stream");
    let word = Memory::new(&driver, own.context(), 4).expect("memory");
    let other = driver.create_usual_stream(own.context());
    let other = other.expect("a stream");
    let entered = driver.enter(own.context()).expect("a context");
    let set = |value: u32| word.write(&entered, other.stream(), 0, &value.to_le_bytes());
    set(0).expect("a word");
    let parked = entered.wait_word(stream.stream(), word.base(), 1);
    parked.expect("a stream");
    let (send, calls) = channel();
    let begun = entered.when_idle(stream.stream(), move || send.send(()).expect("a test"));
    assert_eq!(begun, Ok(()));
    assert_eq!(entered.is_idle(stream.stream()), Ok(false));
    assert!(calls.try_recv().is_err());
    set(1).expect("a word");
    assert_eq!(entered.wait_idle(stream.stream()), Ok(()));
    assert_eq!(calls.iter().count(), 1);
    // One that panics harms nobody.
    let begun = entered.when_idle(stream.stream(), || panic!("of a function"));
    assert_eq!(begun, Ok(()));
    assert_eq!(entered.wait_idle(stream.stream()), Ok(()));
    // A graph would call it more than once.
    knobs.set("CAPTURES", "1");
    let mark = Arc::new(());
    let own_mark = Arc::clone(&mark);
    let refused = entered.when_idle(stream.stream(), move || drop(own_mark));
    let error = refused.expect_err("it is captured");
    assert_eq!(error.status(), Some(Status::CAPTURE_UNSUPPORTED));
    assert_eq!(Arc::strong_count(&mark), 1);
    knobs.clear();
    let (mark, held) = (Arc::new(()), Arc::new(()));
    let own_mark = Arc::clone(&mark);
    knobs.set("FAILS", "cuLaunchHostFunc");
    let begun = entered.when_idle(stream.stream(), move || drop((own_mark, held)));
    assert!(matches!(begun, Err(Error::Call { .. })));
    assert_eq!(Arc::strong_count(&mark), 1);
}
