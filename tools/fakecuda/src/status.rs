// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of calls (`CUresult`): their numbers, names and texts.

use std::ffi::CStr;

use rustix::io::Errno;

/// The outcome of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

/// The result of a call.
pub type Result<T, E = Status> = std::result::Result<T, E>;

/// A number, the name of it in cuda.h, and a text for people.
type Known = (i32, &'static CStr, &'static CStr);

macro_rules! statuses {
    ($($code:literal $constant:ident $name:literal $text:literal;)*) => {
        #[allow(missing_docs)]
        impl Status {
            $(pub const $constant: Self = Self($code);)*
        }

        const KNOWN: &[Known] = &[$(($code, $name, $text)),*];
    };
}

statuses! {
    0 SUCCESS c"CUDA_SUCCESS" c"no error";
    1 INVALID_VALUE c"CUDA_ERROR_INVALID_VALUE" c"invalid argument";
    2 OUT_OF_MEMORY c"CUDA_ERROR_OUT_OF_MEMORY" c"out of memory";
    3 NOT_INITIALIZED c"CUDA_ERROR_NOT_INITIALIZED" c"initialization error";
    4 DEINITIALIZED c"CUDA_ERROR_DEINITIALIZED" c"driver shutting down";
    34 STUB_LIBRARY c"CUDA_ERROR_STUB_LIBRARY" c"not the library of a driver";
    46 DEVICE_UNAVAILABLE c"CUDA_ERROR_DEVICE_UNAVAILABLE" c"device busy or unavailable";
    100 NO_DEVICE c"CUDA_ERROR_NO_DEVICE" c"no device: no /dev/zernel-sim";
    101 INVALID_DEVICE c"CUDA_ERROR_INVALID_DEVICE" c"invalid device ordinal";
    200 INVALID_IMAGE c"CUDA_ERROR_INVALID_IMAGE" c"the kernel image is invalid";
    201 INVALID_CONTEXT c"CUDA_ERROR_INVALID_CONTEXT" c"invalid device context";
    209 NO_BINARY_FOR_GPU c"CUDA_ERROR_NO_BINARY_FOR_GPU" c"no kernel image for the device";
    215 UNSUPPORTED_LIMIT c"CUDA_ERROR_UNSUPPORTED_LIMIT" c"no such limit on this device";
    218 INVALID_PTX c"CUDA_ERROR_INVALID_PTX" c"the PTX is invalid";
    301 FILE_NOT_FOUND c"CUDA_ERROR_FILE_NOT_FOUND" c"file not found";
    304 OPERATING_SYSTEM c"CUDA_ERROR_OPERATING_SYSTEM" c"a call of the system failed";
    400 INVALID_HANDLE c"CUDA_ERROR_INVALID_HANDLE" c"invalid resource handle";
    401 ILLEGAL_STATE c"CUDA_ERROR_ILLEGAL_STATE" c"a resource is in no state for this";
    500 NOT_FOUND c"CUDA_ERROR_NOT_FOUND" c"named symbol not found";
    600 NOT_READY c"CUDA_ERROR_NOT_READY" c"device not ready";
    700 ILLEGAL_ADDRESS c"CUDA_ERROR_ILLEGAL_ADDRESS" c"an illegal address was accessed";
    701 LAUNCH_OUT_OF_RESOURCES c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        c"too many resources asked for by a launch";
    708 PRIMARY_CONTEXT_ACTIVE c"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE"
        c"the primary context is active";
    709 CONTEXT_IS_DESTROYED c"CUDA_ERROR_CONTEXT_IS_DESTROYED" c"the context is destroyed";
    712 ALREADY_REGISTERED c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"
        c"the memory is registered already";
    713 NOT_REGISTERED c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" c"the memory is not registered";
    719 LAUNCH_FAILED c"CUDA_ERROR_LAUNCH_FAILED" c"a kernel failed";
    800 NOT_PERMITTED c"CUDA_ERROR_NOT_PERMITTED" c"operation not permitted";
    801 NOT_SUPPORTED c"CUDA_ERROR_NOT_SUPPORTED" c"operation not supported";
    900 CAPTURE_UNSUPPORTED c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
        c"not permitted while a stream is captured";
    901 CAPTURE_INVALIDATED c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
        c"the capture failed because of an earlier error";
    902 CAPTURE_MERGE c"CUDA_ERROR_STREAM_CAPTURE_MERGE" c"two captures would be merged";
    903 CAPTURE_UNMATCHED c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"
        c"the capture began in another stream";
    904 CAPTURE_UNJOINED c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED"
        c"a captured stream was not joined";
    905 CAPTURE_ISOLATION c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION"
        c"a dependency crosses the border of the capture";
    906 CAPTURE_IMPLICIT c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"
        c"the legacy stream cannot be captured";
    907 CAPTURED_EVENT c"CUDA_ERROR_CAPTURED_EVENT" c"the event was last recorded in a capture";
    908 CAPTURE_WRONG_THREAD c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"
        c"the capture was begun by another thread";
    910 GRAPH_EXEC_UPDATE_FAILURE c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"
        c"the graph has other nodes or edges";
    999 UNKNOWN c"CUDA_ERROR_UNKNOWN" c"unknown error";
}

impl Status {
    fn known(self) -> Option<&'static Known> {
        KNOWN.iter().find(|(code, ..)| *code == self.0)
    }

    /// Its name in cuda.h; `None` for a number that this library does not give.
    pub fn name(self) -> Option<&'static CStr> {
        self.known().map(|(_, name, _)| *name)
    }

    /// A text for people; `None` as for the name.
    pub fn text(self) -> Option<&'static CStr> {
        self.known().map(|(.., text)| *text)
    }
}

impl From<libzernel::Error> for Status {
    /// Of a call on the software GPU.
    fn from(error: libzernel::Error) -> Self {
        match error.errno() {
            // The context of the software GPU is gone.
            Some(Errno::NOENT) => Self::CONTEXT_IS_DESTROYED,
            Some(Errno::NOMEM | Errno::DQUOT | Errno::NOSPC | Errno::MLINK) => Self::OUT_OF_MEMORY,
            Some(Errno::INVAL | Errno::FAULT) => Self::INVALID_VALUE,
            Some(Errno::OPNOTSUPP | Errno::NOTTY) => Self::NOT_SUPPORTED,
            _ => Self::UNKNOWN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_rising() {
        assert!(KNOWN.windows(2).all(|two| two[0].0 < two[1].0));
    }

    #[test]
    fn names_are_those_of_the_header() {
        assert_eq!(Status(0).name(), Some(c"CUDA_SUCCESS"));
        assert_eq!(Status(700).name(), Some(c"CUDA_ERROR_ILLEGAL_ADDRESS"));
        let registered = Status::ALREADY_REGISTERED.name();
        assert_eq!(
            registered,
            Some(c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED")
        );
        assert!(KNOWN
            .iter()
            .all(|(_, name, _)| name.to_bytes().starts_with(b"CUDA_")));
        assert_eq!((Status(12345).name(), Status(-1).text()), (None, None));
    }
}
