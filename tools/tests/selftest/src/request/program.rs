// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of `zernelctl requests`.

use anyhow::ensure;
use libzernel::{Level, Target};

use super::{far, lab};
use crate::child::in_child;
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;
use crate::zernelctl::{refused, says};

pub(super) fn shows_requests() -> Outcome {
    let (lab, client) = lab()?;
    let slot = client.slot(0);
    lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
    for _ in 0..3 {
        let request = slot.begin(&far(client.tsg))?.number;
        slot.done_call(request)?;
    }
    slot.begin(&far(client.tsg))?;
    let id = client.tsg.to_string();
    let id = id.as_str();
    let table = says(&["requests", "--tsg", id])?;
    for row in [["begun", "4"], ["done", "3"], ["in_flight", "1"]] {
        let mut lines = table.lines();
        let is_there = lines.any(|line| line.split_whitespace().take(2).eq(row));
        ensure!(is_there, "{row:?} in\n{table}");
    }
    for (arguments, parts) in [
        (&["--tsg", id, "--histogram"][..], ["FROM", "100.0 %"]),
        (
            &["--json", "--histogram", "--tsg", id],
            ["\"done\": 3", "from_ns"],
        ),
        (&[], ["LEVEL", "\nlc "]),
        (&["--level", "lc"], ["begun", "done"]),
    ] {
        let text = says(&[&["requests"][..], arguments].concat())?;
        for part in parts {
            ensure!(text.contains(part), "{part} in\n{text}");
        }
    }
    refused(&["requests", "--tsg", "18446744073709551615"], 3, "")?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        refused(&["requests"], 4, "")?;
        // Root's.
        refused(&["requests", "--tsg", id], 3, "")
    })
}
