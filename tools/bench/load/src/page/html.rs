// SPDX-License-Identifier: GPL-2.0
//! The page as HTML: needs no other file.

use std::fmt::Write;

use anyhow::Result;
use serde_json::Value;

use zernel_report::figures::COLUMNS;

use super::line::{Figure, Line, Replays, AGREE_WITHIN, EXPLAINED_FROM};
use super::verdict::{Check, Verdict};
use super::{cells, head, name, plots, systems, BEFORE, SECTIONS};
use crate::outcome::Mode;
use crate::report;
use crate::suite::{Done, Section};
use crate::training::{self, Training};

const STYLE: &str = "body{font:15px/1.45 'DejaVu Sans',sans-serif;color:#222;margin:2em auto;\
max-width:1500px;padding:0 1em}table{border-collapse:collapse;font-size:13px;margin:1em 0}\
th,td{padding:2px 8px;text-align:right;border-bottom:1px solid #e1e1e1;white-space:nowrap}\
th{border-bottom:2px solid #666;white-space:normal;vertical-align:bottom}\
td.t,th.t{text-align:left;white-space:normal}tr.zernel{background:#e8f2fa;font-weight:600}\
tr.first td{border-top:2px solid #999}.bad{color:#b03000}.good{color:#00674b}svg{max-width:100%;height:auto}\
.plots{display:flex;flex-wrap:wrap;gap:1em}";

/// What is on the page.
pub(super) struct Page<'a> {
    /// What the suite came to.
    pub(super) all: &'a [Done],
    /// The same as lines.
    pub(super) lines: &'a [Line],
    /// What the replay tells.
    pub(super) replays: &'a Replays,
    /// What is to be said of both.
    pub(super) verdicts: &'a [Verdict],
    /// What calls cost.
    pub(super) costs: Option<&'a Value>,
    /// What training loops came to.
    pub(super) trainings: &'a [Training],
}

impl Page<'_> {
    /// As HTML.
    pub(super) fn text(&self) -> Result<String> {
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>zernel: make \
             bench</title><style>{STYLE}</style></head><body>\n<h1>zernel: make bench</h1>\n\
             <p>Measured through the kernel, on the software GPU (an A100) in a QEMU guest that counts \
             instructions: an instruction is a nanosecond, on one CPU. LC is latency-critical, BE \
             best-effort. LC latency counts from the begin of the preparation; <em>+queue</em> from \
             the arrival. <em>added mean</em> is the mean less the mean alone; p50 to max are of the \
             differences between each request and the same request alone. A request is <em>ready</em> \
             when its data is on the GPU, after the copy in. <em>held</em> is GPU time that holders \
             waited for data. Published: GPreempt (USENIX ATC'25), an A100, read off its plots. \
             Deviations above {EXPLAINED_FROM} % are explained below each table. <em>against \
             replay</em>: by how much the run is above the same workload and policy in \
             <code>replay</code>; within {AGREE_WITHIN} % they agree.</p>\n"
        );
        html_verdicts(&mut page, self.verdicts);
        for (section, heading, about) in SECTIONS {
            let lines = self.lines.iter().filter(|line| line.section == section);
            let lines: Vec<&Line> = lines.collect();
            if lines.is_empty() {
                continue;
            }
            // Writing to a string cannot fail.
            let _ = writeln!(page, "<h2>{heading}</h2>\n<p>{about}</p>");
            let charts = plots::of(section, self.all, self.replays);
            let mut drawn = Vec::new();
            for chart in &charts {
                drawn.extend(chart.svg()?);
            }
            html_plots(&mut page, &drawn);
            html_section(&mut page, &lines);
            html_shares(&mut page, self.all, section);
        }
        if !self.replays.plots().is_empty() {
            page.push_str(
                "<h2>Random arrivals: the replay beside queueing theory</h2>\n<p>M/G/1 queues with \
                 preemptive-resume priorities (Jaiswal 1968; Kleinrock, Queueing Systems, vol. 2). \
                 BE response: both arrive at random, LC as in workload E, BE at a share of its \
                 rates, since all of it is more than a GPU can do. LC latency: LC arrives at random \
                 beside a BE client that always has work; further right is more BE work at the same \
                 LC rate. Without switch costs replay and formula agree within 3 %, which the tests \
                 of the replay check.</p>\n",
            );
            html_plots(&mut page, self.replays.plots());
        }
        html_systems(&mut page, &systems::all(self.all));
        html_trainings(&mut page, self.trainings)?;
        if let Some(costs) = self.costs {
            html_costs(&mut page, costs);
        }
        page.push_str("</body></html>\n");
        Ok(page)
    }
}

fn html_plots(page: &mut String, plots: &[String]) {
    if plots.is_empty() {
        return;
    }
    page.push_str("<div class=\"plots\">\n");
    for svg in plots {
        page.push_str(svg);
        page.push('\n');
    }
    page.push_str("</div>\n");
}

fn html_verdicts(page: &mut String, verdicts: &[Verdict]) {
    let goals = || verdicts.iter().filter(|one| one.check == Check::Goals);
    let replayed = || verdicts.iter().filter(|one| one.check == Check::Replay);
    if goals().next().is_some() {
        page.push_str("<h2>What is to be shown</h2>\n<table>\n");
        for verdict in goals() {
            let (class, word) = match verdict.good {
                true => ("good", "shown"),
                false => ("bad", "not shown"),
            };
            let _ = writeln!(
                page,
                "<tr><td class=\"t {class}\">{word}</td><td class=\"t\">{}</td><td class=\"t\">{}</td></tr>",
                escape(&verdict.what),
                escape(&verdict.found)
            );
        }
        page.push_str("</table>\n");
    }
    let bad: Vec<String> = replayed()
        .filter(|one| !one.good)
        .map(|one| {
            format!(
                "{} ({})",
                one.what.replace(" agrees with its replay", ""),
                one.found
            )
        })
        .collect();
    let (count, apart) = (replayed().count(), bad.len());
    if count > 0 {
        let which = match bad.is_empty() {
            true => String::new(),
            false => format!(": {}", escape(&bad.join("; "))),
        };
        let _ = writeln!(
            page,
            "<p>Of {count} runs that were replayed, {apart} are further than {AGREE_WITHIN} % from \
             their replay{which}.</p>"
        );
    }
}

fn html_shares(page: &mut String, all: &[Done], section: Section) {
    let part = all.iter().filter(|done| done.section == section);
    for (mode, shares) in part.flat_map(|done| &done.shares) {
        let _ = writeln!(
            page,
            "<table><tr><th class=\"t\">{mode}: BE process of weight</th><th>is to have, %</th>\
             <th>had, %</th><th>off by, %</th></tr>"
        );
        for one in shares {
            let _ = writeln!(
                page,
                "<tr><td class=\"t\">{}</td><td>{:.2}</td><td>{:.2}</td><td>{:+.2}</td></tr>",
                one.weight,
                one.due_percent,
                one.had_percent,
                one.error_percent()
            );
        }
        page.push_str("</table>\n");
    }
}

fn html_systems(page: &mut String, systems: &[systems::Beside]) {
    if systems.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Beside other systems</h2>\n<p>Other programs and other GPUs: sizes, not a \
         comparison.</p>\n<table><tr><th class=\"t\">system</th><th class=\"t\">what</th>\
         <th class=\"t\">published</th><th class=\"t\">here</th></tr>\n",
    );
    for cells in systems {
        page.push_str("<tr>");
        for cell in cells {
            let _ = write!(page, "<td class=\"t\">{}</td>", escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

fn html_trainings(page: &mut String, trainings: &[Training]) -> Result<()> {
    if trainings.is_empty() {
        return Ok(());
    }
    let about = training::LEGEND.trim_end().replace('\n', " ");
    let _ = writeln!(page, "<h2>Training loops</h2>\n<p>{}</p>", escape(&about));
    for training in trainings {
        html_plots(
            page,
            &report::training_svg(training)?
                .into_iter()
                .collect::<Vec<_>>(),
        );
        let _ = writeln!(
            page,
            "<p>{}</p>\n<table><tr>",
            escape(&training.plan.title())
        );
        let class = |index| if index == 0 { " class=\"t\"" } else { "" };
        for (index, name) in training::HEAD.iter().enumerate() {
            let _ = write!(page, "<th{}>{}</th>", class(index), escape(name));
        }
        page.push_str("</tr>\n");
        for run in &training.runs {
            page.push_str(if run.signal {
                "<tr class=\"zernel\">"
            } else {
                "<tr>"
            });
            for (index, cell) in training::cells(training, run).iter().enumerate() {
                let _ = write!(page, "<td{}>{}</td>", class(index), escape(cell));
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</table>\n");
    }
    Ok(())
}

fn html_section(page: &mut String, lines: &[&Line]) {
    let text = |index: usize| !(BEFORE..BEFORE + COLUMNS).contains(&index);
    let class = |index| if text(index) { " class=\"t\"" } else { "" };
    page.push_str("<table><tr>");
    for (index, name) in head().iter().enumerate() {
        let _ = write!(page, "<th{}>{}</th>", class(index), escape(name));
    }
    page.push_str("</tr>\n");
    let mut last = None;
    for line in lines {
        let this = (&line.row.workload, line.parameter);
        let first = last != Some(this);
        last = Some(this);
        let zernel = line.row.mode == Mode::Zernel;
        let _ = write!(
            page,
            "<tr class=\"{}{}\">",
            if first { "first " } else { "" },
            if zernel { "zernel" } else { "" }
        );
        for (index, cell) in cells(line).iter().enumerate() {
            let _ = write!(page, "<td{}>{}</td>", class(index), escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
    let mut whys: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines {
        for one in &line.compared {
            if one.deviation_percent.abs() <= EXPLAINED_FROM {
                continue;
            }
            let why = one
                .why
                .clone()
                .unwrap_or_else(|| "Not explained.".to_owned());
            let what = format!(
                "{} {} {:+.0} %",
                name(line),
                match one.figure {
                    Figure::Latency => "LC mean",
                    Figure::Added => "added",
                    Figure::Be => "BE",
                },
                one.deviation_percent
            );
            match whys.iter_mut().find(|(known, _)| *known == why) {
                Some((_, what_else)) => what_else.push(what),
                None => whys.push((why, vec![what])),
            }
        }
    }
    if !whys.is_empty() {
        page.push_str("<p>Deviations from what is published:</p><ul>\n");
        for (why, what) in whys {
            let bad = if why == "Not explained." {
                " class=\"bad\""
            } else {
                ""
            };
            let _ = writeln!(
                page,
                "<li{bad}><em>{}</em>: {}</li>",
                escape(&what.join("; ")),
                escape(&why)
            );
        }
        page.push_str("</ul>\n");
    }
}

fn html_costs(page: &mut String, costs: &Value) {
    page.push_str("<h2>What calls and timers cost, in instructions</h2>\n");
    for (key, heading) in [
        ("calls", "call"),
        (
            "interrupts",
            "timer, what it takes from a program that runs",
        ),
        (
            "switches",
            "context switch from thread to thread through a pipe, while",
        ),
        ("class_change", "class change, until"),
    ] {
        let Some(figures) = costs[key].as_array() else {
            continue;
        };
        let _ = writeln!(
            page,
            "<table><tr><th class=\"t\">{heading}</th><th>median</th><th>max</th></tr>"
        );
        for figure in figures {
            let _ = writeln!(
                page,
                "<tr><td class=\"t\">{}</td><td>{}</td><td>{}</td></tr>",
                escape(figure["name"].as_str().unwrap_or("")),
                figure["median_ns"],
                figure["max_ns"]
            );
        }
        page.push_str("</table>\n");
    }
    if let Some(count) = costs["ready_system_calls"].as_u64() {
        let _ = writeln!(
            page,
            "<p>System calls of 1,000 <em>ready</em> and 1,000 <em>done</em> by store: {count}.</p>"
        );
    }
}

/// As text of HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
