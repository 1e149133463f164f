// SPDX-License-Identifier: GPL-2.0
//! The parameter `lacks`: operations that `zernel.ko` is not offered.

use crate::glue::provider_side::Lacks;
use kernel::prelude::*;

/// The operations of these names, which commas separate.
///
/// # Errors
///
/// `EINVAL` a name of none that can be missing, with a line in the kernel log.
pub(super) fn named(names: &str) -> Result<Lacks> {
    let mut lacks = Lacks::default();
    let each = names.split(',').map(str::trim);
    for name in each.filter(|name| !name.is_empty()) {
        let known = match name {
            "set_interleave" => &mut lacks.interleave,
            "preempt" => &mut lacks.preempt,
            "set_enabled" => &mut lacks.enable,
            "query_load" => &mut lacks.load,
            "query_tsg" => &mut lacks.tsg_load,
            "kick" => &mut lacks.kick,
            _ => {
                pr_err!(
                    "lacks: no operation that can be missing is called {}\n",
                    name
                );
                return Err(EINVAL);
            }
        };
        *known = true;
    }
    Ok(lacks)
}
