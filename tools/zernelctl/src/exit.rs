// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes: a distinct, constant number per cause.

use std::fmt;
use std::io;
use std::process::ExitCode;

use libzernel::Cause;

/// A failure without a code of its own.
pub const FAILED: u8 = 1;
/// The command line is invalid; clap uses the same number.
const USAGE: u8 = 2;
/// There is no such GPU, target or tunable.
const NO_TARGET: u8 = 3;
/// The caller may not do this.
pub const NOT_PERMITTED: u8 = 4;
/// There is no zernel device.
const NO_DEVICE: u8 = 5;
/// A quota or a bound is used up.
const EXHAUSTED: u8 = 6;
/// The target has no class of its own, is not tracked, or has no phases.
const NOT_CLASSED: u8 = 7;
/// The TSG carries the work of several processes.
const SHARED: u8 = 8;
/// `gpu verify`: the machine is not ready for it.
const NOT_READY: u8 = 9;
/// `run`: the command was found but could not be started.
pub const NOT_EXECUTABLE: u8 = 126;
/// `run`: there is no such command.
pub const NOT_FOUND: u8 = 127;

/// The codes as help text.
pub const HELP: &str = "\
Exit codes:
  0    done
  1    failed; gpu verify: a check is outside or failed, a tunable is not put back,
       or none can be done here, not even by root
  2    the command line or one of its values is invalid
  3    no such GPU, TSG, thread, process, cgroup or tunable
  4    not permitted
  5    no zernel device: the module is not loaded
  6    a quota, the admission budget or a bound of the module is used up
  7    class clear: the target has no such attribute of its own;
       untrack: the target is not tracked; hint: the thread has no phases
  8    class set: several processes share the TSG (MPS)
  9    gpu verify: refused, as others are on a GPU, or by the value of a tunable
  126  run: the command cannot be started
  127  run: there is no such command
  run with --cgroup exits with the command's own code, or 128 + the signal that ended it";

/// An invalid value on the command line, as a sentence.
#[derive(Debug)]
pub struct Unsound(pub String);

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsound {}

/// There is no process with this number.
#[derive(Debug)]
pub struct NoProcess(pub u32);

impl fmt::Display for NoProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no process {}", self.0)
    }
}

impl std::error::Error for NoProcess {}

/// Prints the error, and returns its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        // The reader of the output has seen enough.
        return ExitCode::SUCCESS;
    }
    eprintln!("zernelctl: {error:#}");
    ExitCode::from(code(error))
}

fn code(error: &anyhow::Error) -> u8 {
    if error.is::<Unsound>() {
        return USAGE;
    }
    if error.is::<zernel_verify::ready::Refused>() {
        return NOT_READY;
    }
    if error.is::<zernel_verify::NoGpu>() || error.is::<NoProcess>() {
        return NO_TARGET;
    }
    let Some(error) = error.downcast_ref::<libzernel::Error>() else {
        // Making a cgroup, say, is no call of the library.
        let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
        return match io {
            Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
                NOT_PERMITTED
            }
            _ => FAILED,
        };
    };
    match error.cause() {
        Cause::NoDevice => NO_DEVICE,
        Cause::NotPermitted => NOT_PERMITTED,
        Cause::NoSuchTarget => NO_TARGET,
        Cause::NotAssigned => NOT_CLASSED,
        Cause::SharedTsg => SHARED,
        Cause::Exhausted => EXHAUSTED,
        Cause::Invalid => USAGE,
        _ => FAILED,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = match error.downcast_ref::<io::Error>() {
        Some(error) => Some(error.kind()),
        None => error
            .downcast_ref::<serde_json::Error>()
            .and_then(serde_json::Error::io_error_kind),
    };
    kind == Some(io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{anyhow, Context};
    use libzernel::{Call, Error};

    fn code_of(errno: i32) -> u8 {
        let io = io::Error::from_raw_os_error(errno);
        let errno = rustix::io::Errno::from_io_error(&io).unwrap();
        let result: Result<(), Error> = Err(Error::call(Call::ClassClear)(errno));
        // Context must not hide the cause.
        code(&result.context("while testing").unwrap_err())
    }

    #[test]
    fn every_cause_has_its_code() {
        for (errno, expected) in [
            (1, NOT_PERMITTED),
            (2, NO_TARGET),
            (3, NO_TARGET),
            (5, FAILED),
            (9, NO_TARGET),
            (19, NO_DEVICE),
            (22, USAGE),
            (61, NOT_CLASSED),
            (122, EXHAUSTED),
        ] {
            assert_eq!(code_of(errno), expected, "errno {errno}");
        }
        let shared = Error::call(Call::ClassSet)(rustix::io::Errno::OPNOTSUPP);
        assert_eq!(code(&shared.into()), SHARED);
        assert_eq!(code(&anyhow!("anything")), FAILED);
        assert_eq!(code(&Unsound("too long".to_owned()).into()), USAGE);
        let refused = zernel_verify::ready::Refused("others".to_owned());
        assert_eq!(code(&refused.into()), NOT_READY);
        assert_eq!(code(&NoProcess(1).into()), NO_TARGET);
    }

    #[test]
    fn what_the_system_does_not_permit_is_not_permitted() {
        for (errno, expected) in [
            (1, NOT_PERMITTED),
            (13, NOT_PERMITTED),
            (30, NOT_PERMITTED),
            (28, FAILED),
        ] {
            let result: Result<(), _> = Err(io::Error::from_raw_os_error(errno));
            let error = result.context("cannot make cgroup").unwrap_err();
            assert_eq!(code(&error), expected, "errno {errno}");
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&pipe().into()));
        assert!(is_broken_pipe(&serde_json::Error::io(pipe()).into()));
        assert!(!is_broken_pipe(&io::Error::other("else").into()));
    }

    #[test]
    fn help_lists_every_code() {
        for code in [
            0,
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            NOT_READY,
            NOT_EXECUTABLE,
            NOT_FOUND,
        ] {
            let line = format!("\n  {code} ");
            assert!(HELP.contains(&line), "{code}");
        }
    }
}
