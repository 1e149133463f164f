// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Figures of real GPUs that the model can stand for.

use super::measures::{
    Ns,
    Us, //
};

/// Time slice that the NVIDIA driver gives a TSG at first (`NVA06C_CTRL_CMD_SET_TIMESLICE`).
pub(crate) const DEFAULT_TIMESLICE: Us = Us(1_024);

/// The properties of one GPU.
///
/// A context switch saves and restores the state of the streaming multiprocessors (SMs): registers
/// and shared memory. Registers are 64 Ki words of 32 bits = 256 KiB per SM on all of these; shared
/// memory is the maximum per SM of the compute capability (CUDA C++ Programming Guide, table
/// "Technical Specifications per Compute Capability").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preset {
    /// Name, as the module parameter takes it.
    pub(crate) name: &'static str,
    /// SMs.
    pub(crate) sms: u32,
    /// State of one SM in KiB.
    pub(crate) sm_kib: u32,
    /// Memory bandwidth that a save or restore reaches, in MB/s.
    pub(crate) mb_per_s: u64,
    /// Copy engines (`asyncEngineCount`, as CUDA's sample deviceQuery prints it on these).
    pub(crate) copy_engines: u32,
}

/// Registers of an SM in KiB.
const REGISTERS: u32 = 256;

impl Preset {
    /// NVIDIA A100: 108 SMs, 164 KiB shared memory (compute capability 8.0), so 420 KiB per SM
    /// and 44.3 MiB in all. 1,555 GB/s nominal (NVIDIA A100 datasheet, 40 GB), 1.1 TB/s reached
    /// by a context switch (GPreempt, USENIX ATC'25): 71 %, taken for the others too.
    pub(crate) const A100: Self = Self {
        name: "a100",
        sms: 108,
        sm_kib: REGISTERS + 164,
        mb_per_s: 1_100_000,
        copy_engines: 3,
    };
    /// NVIDIA H100 SXM5: 132 SMs, 228 KiB (9.0), 3.35 TB/s nominal (NVIDIA H100 datasheet).
    pub(crate) const H100: Self = Self {
        name: "h100",
        sms: 132,
        sm_kib: REGISTERS + 228,
        mb_per_s: 2_378_000,
        copy_engines: 3,
    };
    /// NVIDIA H200: the SMs of the H100, 4.8 TB/s nominal (NVIDIA H200 datasheet).
    pub(crate) const H200: Self = Self {
        name: "h200",
        sms: 132,
        sm_kib: REGISTERS + 228,
        mb_per_s: 3_408_000,
        copy_engines: 3,
    };
    /// NVIDIA L4: 58 SMs, 100 KiB (8.9), 300 GB/s nominal (NVIDIA L4 datasheet).
    pub(crate) const L4: Self = Self {
        name: "l4",
        sms: 58,
        sm_kib: REGISTERS + 100,
        mb_per_s: 213_000,
        copy_engines: 2,
    };
    /// GeForce RTX 4090: 128 SMs, 100 KiB (8.9), 1,008 GB/s nominal (NVIDIA Ada whitepaper).
    pub(crate) const RTX4090: Self = Self {
        name: "rtx4090",
        sms: 128,
        sm_kib: REGISTERS + 100,
        mb_per_s: 715_000,
        copy_engines: 2,
    };

    /// All presets; the first one is the default.
    pub(crate) const ALL: [Self; 5] = [Self::A100, Self::H100, Self::H200, Self::L4, Self::RTX4090];

    /// The preset called `name`, in any case.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        const ALL: &[Preset] = &Preset::ALL;
        ALL.iter()
            .find(|preset| preset.name.eq_ignore_ascii_case(name))
    }

    /// Bytes saved or restored by a switch of the compute engine.
    pub(crate) const fn context_bytes(&self) -> u64 {
        (self.sms as u64)
            .saturating_mul(self.sm_kib as u64)
            .saturating_mul(1_024)
    }

    /// Bandwidth in bytes per second.
    pub(crate) const fn bandwidth(&self) -> u64 {
        self.mb_per_s.saturating_mul(1_000_000)
    }

    /// Time of one save or one restore of a compute context; both move the same bytes.
    pub(crate) const fn switch_cost(&self) -> Ns {
        // bytes / (MB/s) = µs, so bytes * 1000 / (MB/s) = ns.
        Ns(
            match self
                .context_bytes()
                .saturating_mul(1_000)
                .checked_div(self.mb_per_s)
            {
                Some(ns) => ns,
                None => 0,
            },
        )
    }

    /// Time of one save or restore of a copy engine: it holds no SM state, only the position in
    /// its push buffer and its method state, which is one page of some KiB. Set to the order of
    /// one round trip to GPU memory.
    pub(crate) const COPY_SWITCH_COST: Ns = Ns(1_000);
}

/// The costs of a provider's operations for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpCost {
    /// Preempt through the resource manager: 250 to 356 µs published (gpu_ext).
    pub(crate) preempt: Ns,
    /// Disable, which ends with a preempt, and enable, which submits a runlist: lower end of the
    /// same range.
    pub(crate) enable: Ns,
    /// Time slice and interleave level: a resource manager control that does not wait for the
    /// engine, so a small part of a preempt. Not published; an assumption.
    pub(crate) slice: Ns,
}

impl OpCost {
    /// The published figures.
    pub(crate) const PUBLISHED: Self = Self {
        preempt: Ns(300_000),
        enable: Ns(250_000),
        slice: Ns(20_000),
    };
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_preset))]
mod tests {
    use super::*;

    #[test]
    fn a100_switch_takes_about_forty_microseconds_each_way() {
        assert_eq!(Preset::A100.context_bytes(), 46_448_640);
        assert_eq!(Preset::A100.switch_cost(), Ns(42_226));
    }

    #[test]
    fn every_preset_is_found_by_its_name_and_plausible() {
        for preset in Preset::ALL {
            assert_eq!(Preset::named(preset.name), Some(&preset));
            assert!(preset.switch_cost() > Ns(10_000));
            assert!(preset.switch_cost() < Ns(200_000));
        }
        assert_eq!(Preset::named("A100"), Some(&Preset::A100));
        assert_eq!(Preset::named("none"), None);
    }
}
