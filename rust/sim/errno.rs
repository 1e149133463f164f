// SPDX-License-Identifier: GPL-2.0
//! The errno of each refusal of the model.

use crate::model::error;
use kernel::prelude::*;

impl From<error::Error> for Error {
    fn from(error: error::Error) -> Self {
        match error {
            error::Error::NoTsg | error::Error::NoEngine | error::Error::NoChannel => ENOENT,
            error::Error::Full => ENOSPC,
            error::Error::NoRoom => EAGAIN,
            error::Error::TooManySharers => EMLINK,
            error::Error::Invalid => EINVAL,
        }
    }
}
