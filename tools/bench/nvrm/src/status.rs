// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers of the resource manager.

use std::fmt;

/// An answer (`NV_STATUS`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(pub u32);

macro_rules! statuses {
    ($($name:ident = $number:literal,)*) => {
        impl Status {
            $(pub const $name: Self = Self($number);)*

            fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    OK = 0x00,
    BUSY_RETRY = 0x03,
    GPU_IS_LOST = 0x0f,
    IN_USE = 0x17,
    INSERT_DUPLICATE_NAME = 0x19,
    INSUFFICIENT_RESOURCES = 0x1a,
    INSUFFICIENT_PERMISSIONS = 0x1b,
    INVALID_ADDRESS = 0x1e,
    INVALID_ARGUMENT = 0x1f,
    INVALID_CLIENT = 0x23,
    INVALID_COMMAND = 0x24,
    INVALID_OBJECT_HANDLE = 0x33,
    INVALID_OBJECT_PARENT = 0x36,
    INVALID_STATE = 0x40,
    NO_MEMORY = 0x51,
    NOT_READY = 0x55,
    NOT_SUPPORTED = 0x56,
    OBJECT_NOT_FOUND = 0x57,
    OUT_OF_RANGE = 0x5b,
    RESET_REQUIRED = 0x62,
    STATE_IN_USE = 0x63,
    TIMEOUT = 0x65,
    RESOURCE_LOST = 0x6e,
    GENERIC = 0xffff,
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({:#x})", self.0),
            None => write!(f, "{:#x}", self.0),
        }
    }
}
