// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the command line.

use super::*;
use clap::CommandFactory;

#[test]
fn the_command_line_is_sound() {
    Args::command().debug_assert();
}

#[test]
fn a_tunable_can_be_below_zero() {
    let args = Args::try_parse_from(["zernelctl", "tune", "set", "request_nice", "-7"]);
    let set = args.map(|args| format!("{:?}", args.command)).unwrap();
    assert!(set.contains("\"-7\""), "{set}");
}

#[test]
fn sizes_have_units() {
    for (text, size) in [
        ("0", 0),
        ("17", 17),
        ("4K", 4096),
        ("3M", 3 << 20),
        ("1G", 1 << 30),
    ] {
        assert_eq!(bytes(text), Ok(size));
    }
    for text in ["", "K", "-1", "1.5M", "1T", "1KK", "18014398509481985K"] {
        let error = bytes(text).unwrap_err();
        assert!(error.contains("is not a size"), "{error}");
    }
    for text in ["0", "1025M", "2G"] {
        assert!(length(text).unwrap_err().contains("1 byte to 1G"));
    }
    assert_eq!(length("1G"), Ok(MAX_LENGTH));
}
