// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab of the cases: the modules, the driver's nodes, and zernel's view of a runtime's TSGs.

use std::fs;
use std::path::Path;

use crate::modules::{is_loaded, load, unload_each};
use anyhow::{bail, ensure, Context as _, Result};
use libzernel::{Gpu, Level, Stats, Target, Tsg, Zernel};
use rustix::fs::{makedev, mknodat, FileType, Mode, CWD};
use rustix::io::Errno;
use testkit::harness::Surroundings;
use testkit::{check_eq, wait_until};

use crate::rm::truth::{self, Counts};
use crate::rm::{Handle, Runtime};

/// The driver's major number.
const MAJOR: u32 = 195;
/// The minor number of its control node.
const CONTROL_MINOR: u32 = 255;
/// GPUs of a guest.
pub const GPUS: u32 = 2;
/// Time slice that the driver gives by itself, in microseconds.
pub const ORIGINAL_US: u64 = 1024;
/// Interleave level that the driver gives by itself.
pub const ORIGINAL_LEVEL: u32 = 1;
/// All modules, those that use others first.
pub const ALL: [&str; 6] = [
    "coreprobe",
    "zernel_simrm",
    "zernel_nvidia",
    "zernel",
    "nvidia",
    "fakegpu",
];
/// Tunables that cases change, and what they are by themselves.
const TUNABLES: [(&str, &str); 6] = [
    ("user_control", "deny"),
    ("default_class", "none"),
    ("lease_us", "10000"),
    ("copy_timeslice_us", "10"),
    ("level0_budget_us", "95000"),
    ROTATION,
];

/// Best-effort TSGs do not take turns, but where a case is about that: all of them run in slices.
const ROTATION: (&str, &str) = ("rotation", "none");

/// Everything is loaded; afterwards nothing is left, on either side.
pub const LOADED: Surroundings = Surroundings {
    prepare: || {
        load_driver()?;
        load_zernel()
    },
    settle,
};

/// The driver is loaded, zernel is not.
pub const DRIVER: Surroundings = Surroundings {
    prepare: || {
        load_driver()?;
        unload_each(&["zernel_nvidia", "zernel"])
    },
    settle: || {
        wait_until("the resource manager is empty", || {
            Ok(Counts::of_rm()?.nothing().is_ok())
        })
        .with_context(|| format!("{:?}", Counts::of_rm()))
    },
};

/// The driver is loaded with an engine for its TSGs, zernel is not.
pub const ENGINE: Surroundings = Surroundings {
    prepare: || {
        (DRIVER.prepare)()?;
        load_engine()
    },
    settle: || {
        (DRIVER.settle)()?;
        for tsg in truth::tsgs()? {
            ensure!(tsg.attached == 0, "the engine has {tsg:?}");
        }
        truth::no_stub_was_called()
    },
};

/// All of it: the driver, the engine of its TSGs, and zernel.
pub const TURNS: Surroundings = Surroundings {
    prepare: || {
        (ENGINE.prepare)()?;
        load_zernel()
    },
    settle,
};

/// Loads the engine of the driver's TSGs.
pub fn load_engine() -> Result<()> {
    if !is_loaded("zernel_simrm") {
        load("zernel_simrm", "operation_percent=0")?;
    }
    Ok(())
}

/// Nothing is loaded.
pub const BARE: Surroundings = Surroundings {
    prepare: || unload_each(&ALL),
    settle: || unload_each(&ALL),
};

/// Loads the GPUs and the driver, and makes its nodes.
pub fn load_driver() -> Result<()> {
    if !is_loaded("fakegpu") {
        load("fakegpu", &format!("gpus={GPUS}"))?;
    }
    if !is_loaded("nvidia") {
        load("nvidia", "")?;
    }
    make_nodes()
}

/// Loads zernel and its provider.
pub fn load_zernel() -> Result<()> {
    if !is_loaded("zernel") {
        load("zernel", "")?;
        run_in_slices()?;
    }
    if !is_loaded("zernel_nvidia") {
        load("zernel_nvidia", "")?;
    }
    Ok(())
}

/// Has best-effort TSGs take no turns.
pub fn run_in_slices() -> Result<()> {
    let (name, value) = ROTATION;
    tune(name, value)
}

/// Makes the driver's nodes, which on a real machine its own tools make.
pub fn make_nodes() -> Result<()> {
    let nodes = (0..GPUS).map(|gpu| (format!("/dev/nvidia{gpu}"), gpu));
    for (path, minor) in nodes.chain([(crate::rm::file::CONTROL.to_owned(), CONTROL_MINOR)]) {
        let mode = Mode::from_raw_mode(0o666);
        match mknodat(
            CWD,
            &path,
            FileType::CharacterDevice,
            mode,
            makedev(MAJOR, minor),
        ) {
            Ok(()) => rustix::fs::chmod(&path, mode)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error).context(path),
        }
    }
    Ok(())
}

fn settle() -> Result<()> {
    set_faults("none")?;
    for (name, value) in TUNABLES {
        tune(name, value)?;
    }
    let zernel = Zernel::open()?;
    let mut last = None;
    wait_until("nothing is left of the case", || {
        let stats = zernel.stats()?;
        last = Some((stats, Counts::of_rm()?, Counts::of_table()?));
        Ok(last.as_ref().is_some_and(|(stats, rm, table)| {
            stats.tsgs == 0
                && stats.classes == 0
                && stats.streams == 0
                && rm.nothing().is_ok()
                && rm.agree(table).is_ok()
        }))
    })
    .with_context(|| format!("{last:?}"))?;
    truth::no_stub_was_called()
}

/// Has the software resource manager fail or be slow; see `nvidia-patch/simrm/README`.
pub fn set_faults(what: &str) -> Result<()> {
    let path = "/sys/module/nvidia/parameters/simrm_faults";
    fs::write(path, what).with_context(|| format!("{path}: {what}"))
}

/// The faults that are still to come.
pub fn faults() -> Result<String> {
    Ok(fs::read_to_string(
        "/sys/module/nvidia/parameters/simrm_faults",
    )?)
}

/// Sets a tunable of zernel.
pub fn tune(name: &str, value: &str) -> Result<()> {
    let path = Path::new(libzernel::tunable::Tunables::PATH).join(name);
    fs::write(path, value).with_context(|| format!("{name}={value}"))
}

/// zernel, and what it knows of runtimes.
pub struct Lab {
    /// zernel.
    pub zernel: Zernel,
}

impl Lab {
    /// Opens it.
    pub fn open() -> Result<Self> {
        let zernel = Zernel::open()?;
        Ok(Self { zernel })
    }

    /// All TSGs.
    pub fn tsgs(&self) -> Result<Vec<Tsg>> {
        Ok(self.zernel.tsgs().collect::<libzernel::Result<_>>()?)
    }

    /// The GPU at a bus address.
    pub fn gpu(&self, bus: &str) -> Result<Gpu> {
        for gpu in self.zernel.gpus() {
            let gpu = gpu?;
            if gpu.bus == bus {
                return Ok(gpu);
            }
        }
        bail!("zernel knows no GPU at {bus}")
    }

    /// A runtime's TSG as zernel knows it: the one on its GPU with its engine and number.
    pub fn find(&self, runtime: &Runtime, tsg: Handle) -> Result<Option<Tsg>> {
        let held = truth::tsg(runtime.client, tsg)?;
        let gpu = self.gpu(&runtime.bus())?.id;
        let mut found = self.tsgs()?;
        found.retain(|t| t.gpu == gpu && t.engine == held.seen_engine() && t.hw_tsg == held.number);
        ensure!(found.len() < 2, "zernel lists one TSG twice: {found:?}");
        Ok(found.pop())
    }

    /// As [`Self::find`], and it must be there.
    pub fn tsg(&self, runtime: &Runtime, tsg: Handle) -> Result<Tsg> {
        let found = self.find(runtime, tsg)?;
        found.with_context(|| format!("zernel does not list TSG {tsg:?}"))
    }

    /// The counters.
    pub fn stats(&self) -> Result<Stats> {
        Ok(self.zernel.stats()?)
    }

    /// Gives the TSG a class.
    pub fn class(&self, runtime: &Runtime, tsg: Handle, level: Level) -> Result<Tsg> {
        let found = self.tsg(runtime, tsg)?;
        self.zernel.set_class(&Target::Tsg(found.id), level)?;
        Ok(found)
    }

    /// Waits until zernel's worker has nothing to do.
    pub fn quiet(&self) -> Result<()> {
        wait_until("no TSG waits for the worker", || {
            for gpu in self.zernel.gpus() {
                if gpu?.pending != 0 {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

/// Waits until the resource manager holds this slice.
pub fn wait_slice(runtime: &Runtime, tsg: Handle, slice_us: u64) -> Result<()> {
    let mut held = 0;
    wait_until(&format!("a time slice of {slice_us} us"), || {
        held = truth::tsg(runtime.client, tsg)?.slice_us;
        Ok(held == slice_us)
    })
    .with_context(|| format!("the resource manager holds {held} us"))
}

/// Fails unless the resource manager and the table hold the same.
pub fn agree() -> Result<()> {
    let mut outcome = Ok(());
    // The objects of a closed file may be on their way out.
    let waited = wait_until("the table agrees with the resource manager", || {
        outcome = Counts::of_rm()?.agree(&Counts::of_table()?);
        Ok(outcome.is_ok())
    });
    outcome.and(waited)
}

/// Fails unless zernel lists exactly the TSGs of the resource manager, with what it holds of them.
pub fn same_tsgs(zernel: &Zernel, buses: &[(u32, String)]) -> Result<()> {
    let mut gpus = std::collections::BTreeMap::new();
    for gpu in zernel.gpus() {
        let gpu = gpu?;
        for (number, bus) in buses {
            if *bus == gpu.bus {
                gpus.insert(gpu.id, *number);
            }
        }
    }
    let mut listed = Vec::new();
    for tsg in zernel.tsgs() {
        let tsg = tsg?;
        let gpu = gpus.get(&tsg.gpu).copied();
        let gpu = gpu.with_context(|| format!("a TSG on a GPU that is none: {tsg:?}"))?;
        listed.push((gpu, tsg.engine, tsg.hw_tsg, tsg.channels));
    }
    let mut held: Vec<_> = truth::tsgs()?
        .iter()
        .map(|tsg| (tsg.gpu, tsg.seen_engine(), tsg.number, tsg.channels))
        .collect();
    listed.sort_unstable();
    held.sort_unstable();
    check_eq!(listed, held, "GPU, engine, number and channels of the TSGs");
    Ok(())
}

/// The driver's numbers and bus addresses of its GPUs.
pub fn buses(file: &crate::rm::ControlFile) -> Result<Vec<(u32, String)>> {
    let cards = file.cards()?;
    Ok(cards
        .iter()
        .map(|card| {
            let bus = format!(
                "{:04x}:{:02x}:{:02x}.{}",
                card.domain, card.bus, card.slot, card.function
            );
            (card.gpu_id, bus)
        })
        .collect())
}
