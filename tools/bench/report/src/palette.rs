// SPDX-License-Identifier: MIT OR Apache-2.0
//! Colours and font of all plots: Okabe and Ito's palette, whose colours stay apart for
//! colour-blind readers.

use std::sync::OnceLock;

use anyhow::{ensure, Result};
use plotters::style::{register_font, FontStyle, RGBColor};

/// Name of the font, as SVG viewers may know it; the program has its own copy for measuring and for
/// PNG.
pub const FONT: &str = "DejaVu Sans";

/// Of text.
pub const INK: RGBColor = RGBColor(34, 34, 34);
/// Of axes.
pub const FAINT_INK: RGBColor = RGBColor(110, 110, 110);
/// Of what lies behind.
pub const GRID: RGBColor = RGBColor(225, 225, 225);
/// Of zernel.
pub const BLUE: RGBColor = RGBColor(0, 114, 178);
/// Lighter than [`BLUE`].
pub const SKY: RGBColor = RGBColor(86, 180, 233);
/// Of GPreempt.
pub const GREEN: RGBColor = RGBColor(0, 158, 115);
/// Of classes.
pub const ORANGE: RGBColor = RGBColor(230, 159, 0);
/// Of default slices.
pub const VERMILION: RGBColor = RGBColor(213, 94, 0);
/// Of what has no colour of its own.
pub const PURPLE: RGBColor = RGBColor(204, 121, 167);
/// Of the possible; not one of the eight, and darker than all but the ink.
pub const BROWN: RGBColor = RGBColor(112, 66, 32);
/// Of an idle GPU.
pub const IDLE: RGBColor = RGBColor(205, 205, 205);

/// Colour of a policy by its name, with any parameters. zernel with settings that are not its defaults
/// has the colour of the last of them that is known here.
pub fn of_policy(name: &str) -> RGBColor {
    let settings = [
        ("unrotated", ORANGE),
        ("by level", ORANGE),
        ("exponential", PURPLE),
        ("slack", BROWN),
        ("pid", PURPLE),
        ("edf", GREEN),
        ("edf-preemptive", shade(GREEN, 2, 4)),
        ("admit", SKY),
        ("features", ORANGE),
        ("budget", ORANGE),
        ("shared", PURPLE),
    ];
    let set = name.strip_prefix("zernel ").and_then(|rest| {
        let has = |setting: &str| format!(" {rest} ").contains(&format!(" {setting} "));
        let found = settings.iter().rev().find(|(setting, _)| has(setting));
        found.map(|(_, colour)| *colour)
    });
    if let Some(colour) = set {
        return colour;
    }
    match name.split_whitespace().next().unwrap_or("") {
        "alone" | "exclusive" => INK,
        "default" => VERMILION,
        "classes" => ORANGE,
        "gpreempt" => GREEN,
        "zernel" => BLUE,
        "oracle" => SKY,
        "block" | "suspend-5000" => PURPLE,
        "suspend-140" => shade(PURPLE, 1, 4),
        "suspend-100" => shade(PURPLE, 2, 4),
        "suspend-40" => shade(PURPLE, 3, 4),
        "bound" => BROWN,
        _ => FAINT_INK,
    }
}

/// The shade of a colour for one of several that share it: the first has the colour itself, the
/// last is the lightest.
pub fn shade(colour: RGBColor, number: usize, of: usize) -> RGBColor {
    let lightness = 0.6 * number as f64 / of.saturating_sub(1).max(1) as f64;
    let part = |part: u8| part + ((255 - part) as f64 * lightness.min(1.0)) as u8;
    RGBColor(part(colour.0), part(colour.1), part(colour.2))
}

/// Makes the font known to the plotting library, once.
pub fn register() -> Result<()> {
    static DONE: OnceLock<bool> = OnceLock::new();
    let done = DONE
        .get_or_init(|| register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok());
    ensure!(*done, "the embedded font is damaged");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colour_of_a_policy_is_that_of_its_settings() {
        for (name, colour) in [
            ("zernel", BLUE),
            ("zernel 1:6", BLUE),
            ("zernel by level", ORANGE),
            ("zernel by level exponential", PURPLE),
            ("zernel edf", GREEN),
            ("zernel edf admit", SKY),
            ("zernel shared 12:6 budget 100 ms", PURPLE),
            ("oracle ±0 µs", SKY),
        ] {
            assert_eq!(of_policy(name), colour, "{name}");
        }
        assert_ne!(of_policy("zernel edf-preemptive"), GREEN);
    }

    #[test]
    fn shades_go_from_the_colour_itself_to_a_lighter_one() {
        assert_eq!(shade(ORANGE, 0, 1), ORANGE);
        assert_eq!(shade(ORANGE, 0, 5), ORANGE);
        let light: Vec<u8> = (0..5).map(|number| shade(ORANGE, number, 5).2).collect();
        assert!(light.is_sorted_by(|a, b| a < b), "{light:?}");
        assert!(light[4] < 255);
    }
}
