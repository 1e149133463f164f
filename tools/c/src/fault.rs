// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors at the border, and the last one of each thread.

use std::cell::Cell;

use rustix::io::Errno;

/// An error of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// A null pointer, a structure that is too short, an unknown flag, mode or level.
    #[error("{0}")]
    Argument(&'static str),
    /// A longer structure with something in its unknown part.
    #[error("a structure of {0} bytes has something in the part that this library does not know")]
    Size(u32),
    /// The request is over, or is none.
    #[error("the request is over, or is none of this runtime's")]
    Over,
    /// The want of a class is over, or is none.
    #[error("the want is over, or is none of this runtime's")]
    NoWant,
    /// The graph is over, or is none.
    #[error("the graph is over, or is none of this runtime's")]
    NoGraph,
    /// zernel does not promise the deadline.
    #[error("its deadline cannot be met; nothing has begun")]
    Late,
    /// Nobody has said which graph can be launched.
    #[error("the graph cannot be launched yet: zernel_graph_instantiated() comes before")]
    NotInstantiated,
    /// The stream was not made for this GPU, or has been destroyed.
    #[error("the stream was not made by zernel_stream_create() for this GPU, or is destroyed")]
    Stream,
    /// CUDA has no such device.
    #[error("CUDA has no device {0}")]
    Device(u32),
    /// An error of a configuration file.
    #[error(transparent)]
    Config(#[from] zernel_config::Error),
    /// A panic.
    #[error("a fault of the library: {0}")]
    Internal(String),
    /// An error of the runtime.
    #[error(transparent)]
    Runtime(#[from] zernel_runtime::Error),
}

impl From<cuda::Error> for Fault {
    fn from(error: cuda::Error) -> Self {
        Self::Runtime(error.into())
    }
}

impl Fault {
    fn name(&self) -> &'static str {
        match self {
            Self::Argument(_) => "ZERNEL_BAD_ARGUMENT",
            Self::Size(_) => "ZERNEL_BAD_SIZE",
            Self::Over => "ZERNEL_REQUEST_OVER",
            Self::NoWant => "ZERNEL_UNKNOWN_WANT",
            Self::NoGraph => "ZERNEL_UNKNOWN_GRAPH",
            Self::Late => "ZERNEL_LATE",
            Self::NotInstantiated => "ZERNEL_NOT_INSTANTIATED",
            Self::Stream => "ZERNEL_UNKNOWN_STREAM",
            Self::Device(_) => "ZERNEL_NO_DEVICE",
            Self::Config(error) => error.name(),
            Self::Internal(_) => "ZERNEL_INTERNAL",
            Self::Runtime(error) => error.name(),
        }
    }

    fn errno(&self) -> i32 {
        match self {
            Self::Argument(_) => Errno::INVAL.raw_os_error(),
            Self::Size(_) => Errno::TOOBIG.raw_os_error(),
            Self::Over => Errno::STALE.raw_os_error(),
            Self::NoWant => Errno::IDRM.raw_os_error(),
            Self::NoGraph => Errno::BADR.raw_os_error(),
            Self::Late => Errno::BUSY.raw_os_error(),
            Self::NotInstantiated => Errno::NOEXEC.raw_os_error(),
            Self::Stream => Errno::BADSLT.raw_os_error(),
            Self::Device(_) => Errno::NXIO.raw_os_error(),
            Self::Config(error) => error.errno(),
            Self::Internal(_) => Errno::PROTO.raw_os_error(),
            Self::Runtime(error) => error.errno(),
        }
    }
}

/// Bytes of a text with its zero. It is written over in place and never moved, so that a program that
/// keeps its address too long reads another text, and nothing worse.
type Text = [Cell<u8>; 512];

/// A name and a sentence.
pub(crate) struct Told {
    pub(crate) name: Text,
    pub(crate) text: Text,
}

thread_local! {
    static LAST: Told = const {
        Told {
            name: [const { Cell::new(0) }; 512],
            text: [const { Cell::new(0) }; 512],
        }
    };
}

/// Writes a text, cut to fit, before a zero.
fn set(place: &Text, text: &str) {
    let most = text.len().min(place.len() - 1);
    let most = (0..=most).rev().find(|&at| text.is_char_boundary(at));
    let most = most.unwrap_or(0);
    let bytes = text.as_bytes()[..most].iter().copied();
    let bytes = bytes.map(|byte| if byte == 0 { b' ' } else { byte });
    for (cell, byte) in place.iter().zip(bytes.chain([0])) {
        cell.set(byte);
    }
}

/// Remembers an error of this thread. Returns the number for it.
#[cold]
pub(crate) fn remember(fault: &Fault) -> i32 {
    LAST.with(|last| {
        set(&last.name, fault.name());
        set(&last.text, &fault.to_string());
    });
    -fault.errno()
}

/// Reads the last error of this thread.
pub(crate) fn last<T>(read: impl FnOnce(&Told) -> T) -> T {
    LAST.with(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(place: &Text) -> String {
        let bytes = place.iter().map(Cell::get).take_while(|&byte| byte != 0);
        String::from_utf8(bytes.collect()).unwrap()
    }

    fn name() -> String {
        last(|told| read(&told.name))
    }

    fn text() -> String {
        last(|told| read(&told.text))
    }

    #[test]
    fn the_last_error_is_that_of_the_thread() {
        assert_eq!(remember(&Fault::Over), -Errno::STALE.raw_os_error());
        assert_eq!(std::thread::spawn(name).join().unwrap(), "");
        assert_eq!(name(), "ZERNEL_REQUEST_OVER");
        let forked = Fault::from(zernel_runtime::Error::Forked);
        assert_eq!(remember(&forked), -Errno::CHILD.raw_os_error());
        assert_eq!(name(), "ZERNEL_FORKED");
        assert!(text().contains("child of fork()"));
        assert_eq!(remember(&Fault::Size(99)), -Errno::TOOBIG.raw_os_error());
        assert_eq!(
            remember(&Fault::Argument("x")),
            -Errno::INVAL.raw_os_error()
        );
        assert_eq!(text(), "x");
        let internal = Fault::Internal("a\0b".to_owned());
        assert_eq!(remember(&internal), -Errno::PROTO.raw_os_error());
        assert!(text().ends_with("a b"));
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        for letters in 240..260 {
            remember(&Fault::Internal("ä".repeat(letters)));
            assert!(text().len() <= 511);
            assert!(text().ends_with('ä'));
        }
    }
}
