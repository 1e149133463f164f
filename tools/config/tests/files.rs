// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files, good and bad.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use libzernel::Level;
use zernel_config::{Config, Error, ReleaseWord};

fn read(text: &str) -> Result<Config, Error> {
    Config::from_text("z.yaml", text)
}

#[test]
fn files_with_nothing_have_the_defaults() {
    for text in [
        "",
        "\n# none\n",
        "{}",
        "---\n",
        "~",
        "scheduler:\npolicy: {}\n",
        "slices: null",
    ] {
        assert_eq!(read(text), Ok(Config::default()), "{text:?}");
    }
    let usual = Config::default();
    assert_eq!(usual.scheduler.gpu_id, 0);
    assert_eq!(usual.priorities.latency_critical, Level::LC);
    assert_eq!(usual.priorities.best_effort, Level::BE);
    assert_eq!(usual.slices.latency_critical_us, None);
    assert_eq!(usual.slices.best_effort_us, None);
    assert!(usual.preemption.enabled && !usual.preemption.inline);
    assert_eq!((usual.preemption.lanes, usual.preemption.bound), (4, None));
    assert_eq!(usual.preemption.linger, Duration::ZERO);
    assert_eq!(usual.preemption.release_word, ReleaseWord::Auto);
    assert_eq!((usual.resources.workers, usual.resources.queue), (2, 1024));
    assert_eq!(usual.policy.name, "fair");
    assert_eq!(usual.monitoring.window, 4096);
}

#[test]
fn every_field_is_read() {
    let config = read(
        "scheduler: {gpu_id: 3}
priorities:
  latency_critical: 1
  best_effort: '6'
slices:
  latency_critical_us: 10000
  best_effort_us: 0x1f4
preemption:
  enabled: false
  lanes: 64
  linger_us: 50
  bound_us: 20000
  release_word: gpu
  inline: true
resources:
  workers: 8
  queue: 1
policy: {name: rr}
monitoring: {window: 100}
",
    )
    .unwrap();
    assert_eq!(config.scheduler.gpu_id, 3);
    assert_eq!(config.priorities.latency_critical.number(), 1);
    assert_eq!(config.priorities.best_effort.number(), 6);
    assert_eq!(config.slices.latency_critical_us, Some(10_000));
    assert_eq!(config.slices.best_effort_us, Some(500));
    assert!(!config.preemption.enabled && config.preemption.inline);
    assert_eq!(config.preemption.lanes, 64);
    assert_eq!(config.preemption.linger, Duration::from_micros(50));
    assert_eq!(config.preemption.bound, Some(Duration::from_millis(20)));
    assert_eq!(config.preemption.release_word, ReleaseWord::Gpu);
    assert_eq!((config.resources.workers, config.resources.queue), (8, 1));
    assert_eq!(config.policy.name, "rr");
    assert_eq!(config.monitoring.window, 100);
}

#[test]
fn release_words_have_names() {
    for name in ReleaseWord::NAMES {
        let config = read(&format!("preemption: {{release_word: {name}}}")).unwrap();
        assert_eq!(config.preemption.release_word.name(), name);
    }
}

#[test]
fn levels_have_names_and_numbers() {
    for (text, number) in [
        ("lc", 0),
        ("LC", 0),
        ("0", 0),
        ("'7'", 7),
        ("be", 7),
        ("normal", 3),
    ] {
        let config = read(&format!("priorities: {{latency_critical: {text}}}")).unwrap();
        assert_eq!(
            config.priorities.latency_critical.number(),
            number,
            "{text}"
        );
    }
}

/// A bad file, the name of its error, and the whole of its sentence.
const BAD: &[(&str, &str, &str)] = &[
    ("a: [", "NOT_YAML", ""),
    ("\tscheduler: 1", "NOT_YAML", ""),
    ("slices: {}\nslices: {}", "NOT_YAML", ""),
    (
        "slices: {best_effort_us: 20,\n best_effort_us: 30}",
        "NOT_YAML",
        "",
    ),
    ("--- {}\n--- {}\n", "NOT_YAML", ""),
    ("slices: *none", "NOT_YAML", ""),
    (
        "5",
        "WRONG_TYPE",
        "z.yaml:1: a whole number; expected fields with values",
    ),
    (
        "- scheduler\n- policy",
        "WRONG_TYPE",
        "z.yaml:1: a list; expected fields with values",
    ),
    (
        "# first\npolicy: fair",
        "WRONG_TYPE",
        "z.yaml:2: policy: text; expected fields with values",
    ),
    (
        "slices: {}\nscheduling: {}",
        "UNKNOWN_FIELD",
        "z.yaml:2: scheduling: not known; known here: scheduler, priorities, slices, preemption, \
         resources, policy, monitoring",
    ),
    (
        "scheduler:\n  gpu: 1",
        "UNKNOWN_FIELD",
        "z.yaml:2: scheduler.gpu: not known; known here: gpu_id",
    ),
    (
        "scheduler: {1: 2}",
        "UNKNOWN_FIELD",
        "z.yaml:1: scheduler.(a whole number): not known; known here: gpu_id",
    ),
    (
        "scheduler: {gpu_id: -1}",
        "OUT_OF_RANGE",
        "z.yaml:1: scheduler.gpu_id: -1 is out of range; expected 0 to 255",
    ),
    (
        "scheduler: {gpu_id: '0'}",
        "WRONG_TYPE",
        "z.yaml:1: scheduler.gpu_id: text; expected a whole number",
    ),
    (
        "scheduler: {gpu_id: !a 0}",
        "WRONG_TYPE",
        "z.yaml:1: scheduler.gpu_id: a value with a tag; expected a whole number",
    ),
    (
        "preemption:\n  inline: false\n  lanes: 0",
        "OUT_OF_RANGE",
        "z.yaml:3: preemption.lanes: 0 is out of range; expected 1 to 64",
    ),
    (
        "preemption: {lanes: 65}",
        "OUT_OF_RANGE",
        "z.yaml:1: preemption.lanes: 65 is out of range; expected 1 to 64",
    ),
    (
        "preemption: {lanes: 4.0}",
        "WRONG_TYPE",
        "z.yaml:1: preemption.lanes: a number with a fraction; expected a whole number",
    ),
    (
        "preemption: {enabled: yes}",
        "WRONG_TYPE",
        "z.yaml:1: preemption.enabled: text; expected true or false",
    ),
    (
        "preemption: {inline: 1}",
        "WRONG_TYPE",
        "z.yaml:1: preemption.inline: a whole number; expected true or false",
    ),
    (
        "preemption: {linger_us: 10000001}",
        "OUT_OF_RANGE",
        "z.yaml:1: preemption.linger_us: 10000001 is out of range; expected 0 to 10000000",
    ),
    (
        "preemption: {bound_us: 0}",
        "OUT_OF_RANGE",
        "z.yaml:1: preemption.bound_us: 0 is out of range; expected 1 to 10000000",
    ),
    (
        "preemption: {release_word: bar1}",
        "UNKNOWN_WORD",
        "z.yaml:1: preemption.release_word: 'bar1' is not known; expected one of auto, host, gpu",
    ),
    (
        "slices: {latency_critical_us: 9}",
        "OUT_OF_RANGE",
        "z.yaml:1: slices.latency_critical_us: 9 is out of range; expected 10 to 10000000",
    ),
    (
        "slices: {best_effort_us: 18446744073709551615}",
        "OUT_OF_RANGE",
        "z.yaml:1: slices.best_effort_us: 18446744073709551615 is out of range; expected 10 to \
         10000000",
    ),
    // Numbers have no marks between their digits in YAML.
    (
        "slices: {best_effort_us: 10_000}",
        "WRONG_TYPE",
        "z.yaml:1: slices.best_effort_us: text; expected a whole number",
    ),
    (
        "slices: {best_effort_us: [200]}",
        "WRONG_TYPE",
        "z.yaml:1: slices.best_effort_us: a list; expected a whole number",
    ),
    (
        "resources: {workers: 257}",
        "OUT_OF_RANGE",
        "z.yaml:1: resources.workers: 257 is out of range; expected 1 to 256",
    ),
    (
        "resources: {queue: 0}",
        "OUT_OF_RANGE",
        "z.yaml:1: resources.queue: 0 is out of range; expected 1 to 1048576",
    ),
    (
        "monitoring: {window: 0}",
        "OUT_OF_RANGE",
        "z.yaml:1: monitoring.window: 0 is out of range; expected 1 to 1048576",
    ),
    (
        "priorities: {best_effort: 8}",
        "NO_LEVEL",
        "z.yaml:1: priorities.best_effort: '8' is no level; expected a name such as lc, be or \
         normal, or 0 (most urgent) to 7",
    ),
    (
        "priorities: {best_effort: higher}",
        "NO_LEVEL",
        "z.yaml:1: priorities.best_effort: 'higher' is no level; expected a name such as lc, be \
         or normal, or 0 (most urgent) to 7",
    ),
    (
        "priorities: {best_effort: true}",
        "WRONG_TYPE",
        "z.yaml:1: priorities.best_effort: true or false; expected the name or number of a level",
    ),
    (
        "priorities:\n  latency_critical: 4\n  best_effort: 3",
        "WRONG_ORDER",
        "z.yaml:3: priorities.best_effort: best-effort work would be more urgent (3) than \
         latency-critical work (4)",
    ),
    (
        "policy: {name: random}",
        "UNKNOWN_WORD",
        "z.yaml:1: policy.name: 'random' is not known; expected one of fair, credit, rr, none",
    ),
    (
        "policy: {name: Fair}",
        "UNKNOWN_WORD",
        "z.yaml:1: policy.name: 'Fair' is not known; expected one of fair, credit, rr, none",
    ),
    (
        "policy:\n  name:\n    [fair]",
        "WRONG_TYPE",
        "z.yaml:3: policy.name: a list; expected a word",
    ),
];

#[test]
fn each_bad_file_has_its_error_and_place() {
    for (text, name, sentence) in BAD {
        let error = read(text).unwrap_err();
        assert_eq!(
            error.name(),
            format!("ZERNEL_CONFIG_{name}"),
            "{text:?}: {error}"
        );
        assert!(error.errno() > 0, "{text:?}");
        let place = error.place().unwrap();
        let is_one = !text.contains("--- {}\n---");
        assert_eq!(place.line.is_some(), is_one, "{text:?}: {error}");
        let told = error.to_string();
        match sentence.is_empty() {
            true => assert!(
                told.starts_with("z.yaml") && told.contains("not YAML"),
                "{told}"
            ),
            false => assert_eq!(told, *sentence, "{text:?}"),
        }
    }
    let names: BTreeSet<_> = BAD.iter().map(|(_, name, _)| name).collect();
    assert_eq!(names.len(), 7, "each error of a text is in the table");
}

#[test]
fn values_that_are_named_again_are_bounded() {
    let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for at in 1..12 {
        let last = format!("*a{}", at - 1);
        text += &format!("a{at}: &a{at} [{}]\n", vec![last; 9].join(","));
    }
    let error = read(&text).unwrap_err();
    assert_eq!(error.name(), "ZERNEL_CONFIG_NOT_YAML", "{error}");
    let deep = format!("policy: {}", "[".repeat(10_000));
    assert_eq!(read(&deep).unwrap_err().name(), "ZERNEL_CONFIG_NOT_YAML");
}

#[test]
fn the_page_has_each_field_with_its_default() {
    let page = include_str!("../../../Documentation/runtime-config.rst");
    let block = page.split_once(":caption: zernel.yaml\n\n").unwrap().1;
    let lines = block.lines().map_while(|line| match line {
        "" => Some(""),
        line => line.strip_prefix("    "),
    });
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut config = read(&text).unwrap();
    // The usual values of these are the machine's.
    assert_eq!(config.slices.latency_critical_us.take(), Some(5_000_000));
    assert_eq!(config.slices.best_effort_us.take(), Some(200));
    assert!(config.preemption.bound.take().is_some());
    assert_eq!(config, Config::default());
    let fields: serde_yaml_ng::Mapping = serde_yaml_ng::from_str(&text).unwrap();
    for (section, fields) in fields {
        for (field, _) in fields.as_mapping().unwrap() {
            let row = format!(
                "``{}.{}``",
                section.as_str().unwrap(),
                field.as_str().unwrap()
            );
            assert!(page.contains(&row), "{row} is not in the table");
        }
    }
    for (_, name, _) in BAD {
        assert!(page.contains(&format!("``ZERNEL_CONFIG_{name}``")));
    }
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none.yaml");
    let error = Config::from_file(&none).unwrap_err();
    assert_eq!(error.errno(), 2);
    assert!(error
        .to_string()
        .starts_with(&format!("{}: cannot be read: ", none.display())));
    let error = Config::from_file(folder.path()).unwrap_err();
    assert_eq!(
        (error.name(), error.errno()),
        ("ZERNEL_CONFIG_UNREADABLE", 21)
    );

    let file = folder.path().join("z.yaml");
    fs::write(&file, b"# one\n# \xff\n").unwrap();
    let error = Config::from_file(&file).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{}:2: not UTF-8", file.display())
    );
    assert_eq!(error.name(), "ZERNEL_CONFIG_NOT_TEXT");

    let most = Config::MOST_BYTES as usize;
    fs::write(&file, vec![b'#'; most]).unwrap();
    assert_eq!(Config::from_file(&file), Ok(Config::default()));
    fs::write(&file, vec![b'#'; most + 1]).unwrap();
    let error = Config::from_file(&file).unwrap_err();
    assert_eq!(error.name(), "ZERNEL_CONFIG_TOO_LONG");
    assert_eq!(
        Config::from_file("/dev/zero").unwrap_err().name(),
        "ZERNEL_CONFIG_TOO_LONG"
    );
}

#[test]
fn each_error_has_its_own_number() {
    let numbers: BTreeSet<_> = BAD
        .iter()
        .map(|(text, ..)| read(text).unwrap_err().errno())
        .collect();
    assert_eq!(numbers.len(), 7);
}
