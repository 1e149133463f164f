// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wishes of the user, in the environment.

/// The variable that has them.
pub const VARIABLE: &str = "ZERNEL_AUTO";

/// The variable of CUDA that has the connections of a context to the GPU.
pub const CONNECTIONS: &str = "CUDA_DEVICE_MAX_CONNECTIONS";

/// The variable of CUDA that has launches end with their work, unless it is 0.
pub const BLOCKING: &str = "CUDA_LAUNCH_BLOCKING";

/// The start of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Begin {
    /// The first copy from the host to a device after a synchronisation.
    #[default]
    Copy,
    /// The first data from a socket.
    Socket,
}

/// The wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The start of requests.
    pub begin: Begin,
    /// Requests of a context that can be under way at once.
    pub lanes: u32,
    /// Each begin is a request: no call site is judged.
    pub has_all_sites: bool,
    /// Launches end with their work ([`BLOCKING`]).
    pub is_blocking: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            begin: Begin::Copy,
            lanes: 4,
            has_all_sites: false,
            is_blocking: false,
        }
    }
}

impl Settings {
    /// Reads them: settings with commas between them. `connections`: the value of [`CONNECTIONS`],
    /// of which lanes take a half at most: the streams of the program share the others.
    ///
    /// # Errors
    ///
    /// A sentence, for a setting that there is not or a value that it does not take.
    pub fn read(text: &str, connections: &str) -> Result<Self, String> {
        let mut settings = Self::default();
        let words = text.split(',').map(str::trim);
        for word in words.filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match (name, value) {
                ("begin", "copy") => settings.begin = Begin::Copy,
                ("begin", "socket") => settings.begin = Begin::Socket,
                ("sites", "judged") => settings.has_all_sites = false,
                ("sites", "all") => settings.has_all_sites = true,
                ("lanes", value) => {
                    let lanes = value.parse().ok().filter(|lanes| (1..=64).contains(lanes));
                    settings.lanes = lanes.ok_or_else(|| format!("'{word}': lanes are 1 to 64"))?;
                }
                _ => {
                    return Err(format!(
                        "'{word}': it takes begin=copy or socket, lanes=, and sites=judged or all"
                    ))
                }
            }
        }
        let most = self::connections(connections) / 2;
        settings.lanes = settings.lanes.min(most.max(1));
        Ok(settings)
    }
}

/// The connections that CUDA makes with a value: 1 to 32, and 8 for one that is no number.
fn connections(text: &str) -> u32 {
    const USUAL: u32 = 8;
    text.trim()
        .parse()
        .map_or(USUAL, |count: u32| count.clamp(1, 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let lanes = |lanes| Settings {
            lanes,
            ..Settings::default()
        };
        let socket = Settings {
            begin: Begin::Socket,
            ..Settings::default()
        };
        let all = Settings {
            has_all_sites: true,
            ..Settings::default()
        };
        for (text, settings) in [
            ("", lanes(4)),
            (" , ", lanes(4)),
            ("lanes=1,begin=copy", lanes(1)),
            ("begin=socket,lanes=4", socket),
            ("lanes=1, lanes=16", lanes(16)),
            ("sites=judged", lanes(4)),
            ("sites=judged,sites=all", all),
        ] {
            assert_eq!(Settings::read(text, "32"), Ok(settings), "{text}");
        }
    }

    #[test]
    fn lanes_take_half_of_the_connections() {
        for (text, connections, lanes) in [
            ("", "", 4),
            ("", "8", 4),
            ("lanes=64", "", 4),
            ("lanes=64", "32", 16),
            ("lanes=64", "1000", 16),
            ("lanes=3", "32", 3),
            ("", "4", 2),
            ("", "3", 1),
            ("", "1", 1),
            ("", "0", 1),
            ("", "many", 4),
        ] {
            let settings = Settings::read(text, connections).unwrap();
            assert_eq!(settings.lanes, lanes, "{text} {connections}");
        }
    }

    #[test]
    fn what_there_is_not_is_refused() {
        for text in [
            "lanes",
            "lanes=",
            "lanes=0",
            "lanes=65",
            "lanes=many",
            "speed=1",
            "begin",
            "begin=never",
            "sites",
            "sites=none",
        ] {
            let refused = Settings::read(text, "32").unwrap_err();
            assert!(refused.starts_with(&format!("'{text}': ")), "{refused}");
        }
    }
}
