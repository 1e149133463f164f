// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the report: its text, its JSON, and the verdict of all.

use super::*;
use crate::figure::{Figures, Unit};
use libzernel::gpu::{Abilities, Id};
use libzernel::Timestamp;

fn gpu() -> Gpu {
    Gpu {
        id: Id::new(7),
        parent: None,
        name: "A100".to_owned(),
        bus: "0000:01:00.0".to_owned(),
        uuid: None,
        numa_node: None,
        provider: "nvidia".to_owned(),
        driver: "550.163.01".to_owned(),
        can: Abilities {
            timeslice: true,
            interleave: true,
            preempt: true,
            enable: true,
            load: true,
            tsg_load: true,
            control: true,
            waits: false,
            context: false,
            kick: true,
        },
        suspended: false,
        retrying: false,
        unresponsive: false,
        turns: true,
        overfull: false,
        tsgs: 0,
        pending: 0,
        min_timeslice_us: None,
        max_timeslice_us: None,
        added_ns: Timestamp::from_ns(0),
        busy_ns: 0,
        busy_at_ns: None,
        switch_ns: 0,
        applied: 0,
        retries: 0,
        errors: 0,
    }
}

pub fn outcome(name: &'static str, verdict: Verdict, figures: Figures) -> Outcome {
    let judged = figures.into_vec().into_iter().map(|figure| Judged {
        judgement: figure.judge(false),
        figure,
    });
    Outcome {
        name,
        asks: "Does it?",
        verdict,
        reason: (verdict != Verdict::Ok).then(|| "a reason".to_owned()),
        seconds: 1.25,
        figures: judged.collect(),
    }
}

pub fn report(checks: Vec<Outcome>) -> Report {
    Report {
        schema: SCHEMA,
        hardware: false,
        note: note(false),
        work: "the software GPU",
        kernel: "7.3.4".to_owned(),
        others: 2,
        complete: true,
        gpu: gpu(),
        checks,
    }
}

fn figures() -> Figures {
    let mut figures = Figures::new();
    figures.always("seen", 3, 4, "a promise");
    let range = Range::new(5.0, 300.0);
    figures.cost(
        "switch",
        Unit::Microseconds,
        &[84.25, 83.0, 90.0],
        range,
        "a book",
    );
    figures.first("flush", Unit::Nanoseconds, &[1234.5]);
    figures
}

#[test]
fn text_is_for_people() {
    let checks = vec![
        outcome("slice", Verdict::Outside, figures()),
        outcome("records", Verdict::NotHere, Figures::new()),
    ];
    let text = report(checks).text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "GPU       A100 at 0000:01:00.0 (id 7)");
    for line in [
        "No figure here is a GPU's: the GPU is software. Verdicts are about functions; costs are \
         not judged.",
        "2 TSGs of others are on the GPU: figures are those beside them.",
        "CHECK    VERDICT    TIME",
        "slice    outside   1.2 s  a reason",
        "records  not here  1.2 s  a reason",
        "slice: Does it?",
        "  FIGURE   MEDIAN  MIN  P99  MAX  N  EXPECTED",
        "  seen          3                     4         outside",
        "  switch  84.2 us   83   90   90   3  5 to 300",
        "  flush   1234 ns                      not known",
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let found = lines.iter().any(|l| squeezed(l) == squeezed(line));
        assert!(found, "{line}\n{text}");
    }
    assert!(!text.contains("records: "), "{text}");
}

#[test]
fn json_is_for_programs() {
    let checks = vec![outcome("slice", Verdict::NotHere, figures())];
    let json = serde_json::to_value(report(checks)).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["hardware"], false);
    assert_eq!(json["gpu"]["bus"], "0000:01:00.0");
    let check = &json["checks"][0];
    assert_eq!(check["verdict"], "not here");
    assert_eq!(check["reason"], "a reason");
    let figures = &check["figures"];
    assert_eq!(figures[0]["unit"], "count");
    assert_eq!(figures[0]["kind"], "effect");
    assert_eq!(figures[0]["judgement"], "outside");
    assert_eq!(figures[0]["expected"]["max"], 4.0);
    assert_eq!(figures[1]["unit"], "us");
    assert_eq!(figures[1]["median"], 84.25);
    assert_eq!(
        (&figures[1]["n"], &figures[1]["max"]),
        (&3.into(), &90.0.into())
    );
    assert_eq!(figures[1]["judgement"], "not_judged");
    assert!(figures[2]["expected"].is_null());
    assert_eq!(figures[2]["source"], "not known: first figure wanted");
    for field in ["min", "mean", "p99", "kind", "name"] {
        assert!(!figures[2][field].is_null(), "{field}");
    }
}

#[test]
fn all_is_good_unless_one_is_bad() {
    let of = |verdicts: &[Verdict]| {
        let checks = verdicts.iter().map(|v| outcome("one", *v, Figures::new()));
        report(checks.collect()).is_good()
    };
    assert!(of(&[Verdict::Ok, Verdict::NotHere]));
    assert!(!of(&[Verdict::Ok, Verdict::Outside]));
    assert!(!of(&[Verdict::Failed]));
}

#[test]
fn numbers_have_the_digits_that_matter() {
    for (value, text) in [
        (0.0, "0"),
        (-0.0, "0"),
        (7.0, "7"),
        (0.256, "0.26"),
        (84.25, "84.2"),
        (-84.25, "-84.2"),
        (1234.5, "1234"),
        (1e9, "1000000000"),
    ] {
        assert_eq!(number(value), text);
    }
}
