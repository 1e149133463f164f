// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors, each with a name and an errno for languages that have no enums.

use libzernel::{gpu, tsg};
use rustix::io::Errno;

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the runtime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `ZERNEL=off`, or [`Mode::Off`](crate::Mode::Off).
    #[error("it is switched off")]
    Off,
    /// A text that is no mode.
    #[error("'{0}' is no mode: ZERNEL takes auto, off or require")]
    Mode(String),
    /// A number of lanes that a runtime cannot have.
    #[error("{0} lanes: a runtime has 1 to 64")]
    Lanes(u32),
    /// A time that no holder may take.
    #[error("a bound of {0} ns: a holder takes 1 us to 10 s")]
    Bound(u128),
    /// A text that is no memory of the words that holders wait for.
    #[error("'{0}' is no release word: it takes auto, host or gpu")]
    Word(String),
    /// CUDA is missing, too old, or a call of it failed.
    #[error(transparent)]
    Cuda(#[from] cuda::Error),
    /// zernel is missing, or a call of it failed.
    #[error(transparent)]
    Zernel(#[from] libzernel::Error),
    /// `/dev/zernel` can be read alone.
    #[error("/dev/zernel is open for reading alone: requests need its group, see its mode")]
    ReadOnly,
    /// The thread has no context.
    #[error("no CUDA context is current: make one that, or use the primary one, first")]
    NoContext,
    /// zernel knows no such GPU.
    #[error("zernel knows no GPU at {bus}: load its provider, zernel_nvidia")]
    NoGpu {
        /// The device as CUDA names it.
        bus: String,
    },
    /// The context has no TSG that zernel knows.
    #[error("zernel lists no compute TSG of this process on GPU {gpu}")]
    NoTsg {
        /// The GPU.
        gpu: gpu::Id,
    },
    /// The context may have any of several TSGs.
    #[error(
        "this process has several compute TSGs on GPU {gpu}, and the context may have any of \
         {}: make a TsgsBefore before the context, or name one", list(.tsgs)
    )]
    Ambiguous {
        /// The GPU.
        gpu: gpu::Id,
        /// The TSGs.
        tsgs: Vec<tsg::Id>,
    },
    /// The TSG that was named is none of this process's on the GPU.
    #[error("TSG {tsg} is no compute TSG of this process on GPU {gpu}")]
    WrongTsg {
        /// The GPU.
        gpu: gpu::Id,
        /// The TSG.
        tsg: tsg::Id,
    },
    /// The stream is of another context.
    #[error("the stream is of another context than the runtime")]
    ForeignStream,
    /// Calls on the stream are captured for a graph.
    #[error("calls on the stream are captured for a graph: begin before, or launch the graph")]
    Capturing,
    /// Calls on the stream are not captured for a graph.
    #[error("calls on the stream are not captured for a graph")]
    NotCapturing,
    /// The graph that can be launched was not made of the captured one.
    #[error("the graph to launch was not made of the one that the request is recorded in")]
    ForeignGraph,
    /// No lane is free, where a graph takes one for itself; or that of the graph is not.
    #[error("no lane is free: a graph takes one for itself, and has one request at a time")]
    NoLane,
    /// This is a child of `fork()`.
    #[error("this process is a child of fork(): CUDA and requests stayed with its parent")]
    Forked,
    /// The context of the runtime is of no use any more.
    #[error("the CUDA context is lost: {0}")]
    Lost(cuda::Error),
}

fn list(tsgs: &[tsg::Id]) -> String {
    let names: Vec<String> = tsgs.iter().map(tsg::Id::to_string).collect();
    names.join(", ")
}

impl Error {
    /// Its name, the same in every language.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Off => "ZERNEL_OFF",
            Self::Mode(_) => "ZERNEL_BAD_MODE",
            Self::Lanes(_) => "ZERNEL_BAD_LANES",
            Self::Bound(_) => "ZERNEL_BAD_BOUND",
            Self::Word(_) => "ZERNEL_BAD_WORD",
            Self::Cuda(cuda::Error::NotHere(_)) => "ZERNEL_NO_CUDA",
            Self::Cuda(cuda::Error::NoWindow(_)) => "ZERNEL_NO_GPU_WORD",
            Self::Cuda(_) => "ZERNEL_CUDA_FAILED",
            Self::Zernel(error) if error.cause() == libzernel::Cause::NoDevice => {
                "ZERNEL_NO_MODULE"
            }
            Self::Zernel(_) => "ZERNEL_CALL_FAILED",
            Self::ReadOnly => "ZERNEL_READ_ONLY",
            Self::NoContext => "ZERNEL_NO_CONTEXT",
            Self::NoGpu { .. } => "ZERNEL_NO_GPU",
            Self::NoTsg { .. } => "ZERNEL_NO_TSG",
            Self::Ambiguous { .. } => "ZERNEL_AMBIGUOUS_TSG",
            Self::WrongTsg { .. } => "ZERNEL_WRONG_TSG",
            Self::ForeignStream => "ZERNEL_FOREIGN_STREAM",
            Self::Capturing => "ZERNEL_CAPTURING",
            Self::NotCapturing => "ZERNEL_NOT_CAPTURING",
            Self::ForeignGraph => "ZERNEL_FOREIGN_GRAPH",
            Self::NoLane => "ZERNEL_NO_LANE",
            Self::Forked => "ZERNEL_FORKED",
            Self::Lost(_) => "ZERNEL_CONTEXT_LOST",
        }
    }

    /// The number that calls of C return, negated.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Self::Off => Errno::CANCELED,
            Self::Mode(_) | Self::Lanes(_) | Self::Bound(_) | Self::Word(_) => Errno::INVAL,
            Self::Cuda(cuda::Error::NotHere(_)) => Errno::LIBACC,
            Self::Cuda(cuda::Error::NoWindow(_)) => Errno::NOPKG,
            Self::Cuda(cuda::Error::Zero(_)) => Errno::INVAL,
            Self::Cuda(_) => Errno::IO,
            Self::Zernel(error) => error.errno().unwrap_or(Errno::IO),
            Self::ReadOnly => Errno::ACCESS,
            Self::NoContext => Errno::BADF,
            Self::NoGpu { .. } => Errno::NODEV,
            Self::NoTsg { .. } => Errno::NOENT,
            Self::Ambiguous { .. } => Errno::NOTUNIQ,
            Self::WrongTsg { .. } => Errno::XDEV,
            Self::ForeignStream => Errno::REMOTE,
            Self::Capturing => Errno::INPROGRESS,
            Self::NotCapturing => Errno::ALREADY,
            Self::ForeignGraph => Errno::BADE,
            Self::NoLane => Errno::BUSY,
            Self::Forked => Errno::CHILD,
            Self::Lost(_) => Errno::OWNERDEAD,
        };
        errno.raw_os_error()
    }

    /// True for a fault of the program: the runtime does not go on without requests then.
    pub fn is_misuse(&self) -> bool {
        matches!(
            self,
            Self::Mode(_)
                | Self::Lanes(_)
                | Self::Bound(_)
                | Self::Word(_)
                | Self::NoContext
                | Self::Ambiguous { .. }
                | Self::WrongTsg { .. }
                | Self::ForeignStream
                | Self::Capturing
                | Self::NotCapturing
                | Self::ForeignGraph
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all() -> Vec<Error> {
        let (gpu, tsg) = (gpu::Id::new(1), tsg::Id::new(2));
        let missing = || cuda::Error::NotHere("no CUDA".to_owned());
        let none = libzernel::Zernel::open_at("/nonexistent/zernel").unwrap_err();
        let failed = cuda::Error::Call {
            call: "cuInit",
            status: cuda::Status::NO_DEVICE,
            name: "CUDA_ERROR_NO_DEVICE".to_owned(),
        };
        vec![
            Error::Off,
            Error::Mode("on".to_owned()),
            Error::Lanes(0),
            Error::Bound(0),
            Error::Word("bar1".to_owned()),
            Error::Cuda(missing()),
            Error::Cuda(cuda::Error::NoWindow("no GDRCopy".to_owned())),
            Error::Cuda(failed.clone()),
            Error::Zernel(none),
            Error::ReadOnly,
            Error::NoContext,
            Error::NoGpu {
                bus: "0000:01:00.0".to_owned(),
            },
            Error::NoTsg { gpu },
            Error::Ambiguous {
                gpu,
                tsgs: vec![tsg, tsg::Id::new(3)],
            },
            Error::WrongTsg { gpu, tsg },
            Error::ForeignStream,
            Error::Capturing,
            Error::NotCapturing,
            Error::ForeignGraph,
            Error::NoLane,
            Error::Forked,
            Error::Lost(failed),
        ]
    }

    #[test]
    fn each_has_a_name_a_number_and_a_sentence() {
        let names: BTreeSet<_> = all().iter().map(Error::name).collect();
        assert_eq!(names.len(), all().len());
        for error in all() {
            assert!(error.errno() > 0, "{error:?}");
            let text = error.to_string();
            assert!(!text.is_empty() && text.lines().count() == 1, "{text}");
        }
        let misuses = all().iter().filter(|error| error.is_misuse()).count();
        assert_eq!(misuses, 11);
    }

    #[test]
    fn tsgs_to_choose_from_are_listed() {
        let text = all()[13].to_string();
        assert!(text.contains("may have any of 2, 3: "), "{text}");
    }
}
