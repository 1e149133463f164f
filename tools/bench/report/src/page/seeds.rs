// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of a sweep with several seeds, as one: the median of each figure.

use super::line::{Objective, ReplayRow};

/// A file of a sweep: its name, seed, runs and plots.
type Sweep = (String, u64, Vec<ReplayRow>, Vec<String>);

/// The sweeps, those of the same workload together.
pub(super) fn together(mut sweeps: Vec<Sweep>) -> Vec<Objective> {
    // Stable: the order of the files stays, but for the seeds of one sweep.
    sweeps.sort_by_key(|one| one.1);
    let mut groups: Vec<Vec<Sweep>> = Vec::new();
    for sweep in sweeps {
        let is_same = |group: &Vec<Sweep>| {
            let of = |one: &Sweep| (one.0.clone(), one.2.first().map(|row| row.workload.clone()));
            group.first().map(of) == Some(of(&sweep))
        };
        match groups.iter_mut().find(|group| is_same(group)) {
            Some(group) => group.push(sweep),
            None => groups.push(vec![sweep]),
        }
    }
    groups.into_iter().filter_map(objective).collect()
}

fn objective(group: Vec<Sweep>) -> Option<Objective> {
    let (sweep, _, rows, plots) = group.first()?;
    let rows = rows.iter().map(|row| {
        let is_same =
            |other: &&ReplayRow| other.policy == row.policy && other.parameter == row.parameter;
        let all: Vec<&ReplayRow> = group
            .iter()
            .filter_map(|(_, _, rows, _)| rows.iter().find(is_same))
            .collect();
        median_of(row, &all)
    });
    Some(Objective {
        sweep: sweep.clone(),
        rows: rows.collect(),
        seeds: group.iter().map(|one| one.1).collect(),
        plots: plots.clone(),
    })
}

fn median_of(row: &ReplayRow, all: &[&ReplayRow]) -> ReplayRow {
    let median = |figure: &dyn Fn(&ReplayRow) -> f64| {
        let mut values: Vec<f64> = all.iter().map(|row| figure(row)).collect();
        values.sort_unstable_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        }
    };
    let mut row = row.clone();
    row.lc.mean_ns = median(&|row| row.lc.mean_ns);
    row.lc.p99_ns = median(&|row| row.lc.p99_ns);
    row.lc_added.mean_ns = median(&|row| row.lc_added.mean_ns);
    row.lc_added.p99_ns = median(&|row| row.lc_added.p99_ns);
    row.held_percent = median(&|row| row.held_percent);
    row.be_rate = median(&|row| row.be_rate);
    row.be_percent = median(&|row| row.be_percent);
    row.lc_not_served_percent = median(&|row| row.lc_not_served_percent);
    if let Some(missed) = &mut row.missed {
        missed.percent = median(&|row| row.missed.map_or(0.0, |one| one.percent));
        missed.failed_percent = median(&|row| row.missed.map_or(0.0, |one| one.failed_percent));
        missed.refused_percent = median(&|row| row.missed.map_or(0.0, |one| one.refused_percent));
        missed.late_p99_ns = median(&|row| row.missed.map_or(0.0, |one| one.late_p99_ns));
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(name: &str, workload: &str, seed: u64, held: f64) -> Sweep {
        let row = serde_json::json!({
            "workload": workload, "policy": "zernel", "deployment": "per-client",
            "parameter": 16.0, "lc": {"mean_ns": 1.0}, "be_rate": 0.0, "held_percent": held,
            "missed": {"percent": 10.0 * held, "refused_percent": 0.0, "late_p99_ns": 0.0},
        });
        let rows = vec![serde_json::from_value(row).unwrap()];
        (name.to_owned(), seed, rows, vec![format!("plot {seed}")])
    }

    #[test]
    fn figures_are_medians_over_the_seeds_and_plots_those_of_the_first() {
        let all = together(vec![
            sweep("sharing", "sharing", 3, 9.0),
            sweep("sharing", "sharing", 1, 1.0),
            sweep("features", "F-linear", 1, 7.0),
            sweep("features", "F-drift", 1, 8.0),
            sweep("sharing", "sharing", 2, 2.0),
        ]);
        let held: Vec<f64> = all.iter().map(|one| one.rows[0].held_percent).collect();
        assert_eq!(held, [2.0, 7.0, 8.0]);
        assert_eq!(all[0].rows[0].missed.unwrap().percent, 20.0);
        assert_eq!(all[0].seeds, [1, 2, 3]);
        assert_eq!(all[0].plots, ["plot 1"]);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
        let all = together(vec![
            sweep("sharing", "sharing", 1, 1.0),
            sweep("sharing", "sharing", 2, 2.0),
        ]);
        assert_eq!(all[0].rows[0].held_percent, 1.5);
    }
}
