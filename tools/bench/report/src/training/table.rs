// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table that compares a loop without the signal and with it.

use super::{Trained, Training};
use crate::figures::Table;

/// Names of its columns.
pub const HEAD: [&str; 11] = [
    "",
    "steps\n/s",
    "GPU idle\n%",
    "idle removed\n%",
    "phases\nright %",
    "longest lag\nms",
    "\nsamples",
    "signals",
    "\nearly",
    "\nlate",
    "\nuseless",
];

/// Their meaning.
pub const LEGEND: &str = "\
A training loop reads a batch from a throttled disk, computes on the GPU and steps its optimizer.
Without the signal it does one after the other; with it a loader reads the next batch when zernel
says that it is time. 'GPU idle' is from the first computation to the last, as the GPU counts it;
'idle removed' is the part of that time which the signal takes away.
'phases right' is the time in which the phase that zernel tells of the thread that trains is what the
loop does, from the second step on, and 'lag' how long a section was told as something else; the
loop's own marks say what it does. Sections shorter than three samples count for neither.
A signal is early if the batch was there before the computation was over, late if it was not, and
useless if nothing was loaded. The loop without the signal is signalled too, and does not listen.
";

/// A line for each run.
pub fn cells(training: &Training, run: &Trained) -> [String; HEAD.len()] {
    let figures = &run.figures;
    let removed = training.idle_removed_percent().filter(|_| run.signal);
    let name = match run.signal {
        false => "without the signal",
        true => "with the signal",
    };
    [
        name.to_owned(),
        format!("{:.2}", figures.steps_per_s),
        format!("{:.1}", figures.gpu_idle_percent),
        removed.map_or("-".to_owned(), |percent| format!("{percent:.1}")),
        format!("{:.1}", figures.agreement.percent),
        format!("{:.2}", figures.agreement.longest_ns as f64 / 1e6),
        figures.agreement.longest_samples().to_string(),
        figures.signals.to_string(),
        figures.early.to_string(),
        figures.late.to_string(),
        figures.useless.to_string(),
    ]
}

/// The table with its title.
pub fn render(training: &Training) -> String {
    let mut table = Table::new(HEAD, 1..HEAD.len());
    for run in &training.runs {
        table.add(cells(training, run));
    }
    format!("{}\n{table}", training.plan.title())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata;
    use crate::training::Plan;

    #[test]
    fn the_table_has_a_line_for_each_run() {
        let training = testdata::training(Plan::FIXED);
        let text = render(&training);
        assert!(text.starts_with("A training loop · load 120 ms"), "{text}");
        assert_eq!(cells(&training, &training.runs[0])[3], "-");
        let removed = cells(&training, &training.runs[1])[3].parse::<f64>();
        assert!(removed.is_ok_and(|percent| percent > 80.0));
        let widths: Vec<_> = text.lines().skip(1).map(|l| l.chars().count()).collect();
        assert!(widths
            .iter()
            .all(|width| *width == widths[0] && *width <= 132));
    }
}
