// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of Python, with their units and ranges.

use std::time::Duration;

use libzernel::request::Features;
use libzernel::Level;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use zernel_runtime::Spec;

use crate::error::Fault;

/// Longest time that an argument can say: a century or so.
const MOST_S: f64 = 4e9;

/// A whole number of so many bits.
fn whole<'py, T>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    value.extract().map_err(|error: PyErr| {
        match error.is_instance_of::<PyOverflowError>(value.py()) {
            true => Fault::Argument(format!("{name}={value} is out of range")).into(),
            false => error,
        }
    })
}

/// A number of lanes, the range of which the runtime checks.
pub(crate) fn lanes(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    whole("lanes", value)
}

/// The id of a TSG.
pub(crate) fn tsg(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    whole("tsg", value)
}

/// The number of a device.
pub(crate) fn gpu(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    whole("gpu_id", value)
}

/// A key: a number, or text, which stands for a number of its own in each process and release.
pub(crate) fn key(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(hash(text.to_str()?.as_bytes())),
        Err(_) => whole("key", value),
    }
}

/// A kind of requests.
pub(crate) fn spec(
    key_of: Option<&Bound<'_, PyAny>>,
    expected_us: f64,
    slo_ms: f64,
    exact: bool,
    features_of: Option<&Bound<'_, PyAny>>,
    admit_us: Option<f64>,
) -> PyResult<Spec> {
    let spec = Spec::new()
        .key(key_of.map_or(Ok(0), key)?)
        .expected(us("expected_us", expected_us)?)
        .slo(ms("slo_ms", slo_ms)?);
    let spec = match features_of.map(features).transpose()?.flatten() {
        Some(features) => spec.features(features),
        None => spec,
    };
    let spec = match admit_us {
        None => spec,
        Some(_) if slo_ms == 0.0 => {
            let text = "admit_us needs slo_ms, which is what would be promised";
            return Err(Fault::Argument(text.to_owned()).into());
        }
        Some(burst) => spec.admit(us("admit_us", burst)?),
    };
    Ok(if exact { spec.exact() } else { spec })
}

/// Features, if there are some: whole numbers, one after the other.
fn features(value: &Bound<'_, PyAny>) -> PyResult<Option<Features>> {
    let mut numbers = Vec::new();
    // One more than there can be, of an iterator that need not end.
    for number in value.try_iter()?.take(Features::MAX + 1) {
        numbers.push(whole("features", &number?)?);
    }
    if numbers.is_empty() {
        return Ok(None);
    }
    let features = Features::new(&numbers);
    let text = || format!("features: at most {} numbers", Features::MAX);
    features
        .map(Some)
        .ok_or_else(|| Fault::Argument(text()).into())
}

/// FNV-1a, of 64 bits.
fn hash(text: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    text.iter().fold(BASIS, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

/// A time of so many units, each `unit_s` seconds; 0 or more.
fn time(name: &str, value: f64, unit_s: f64) -> PyResult<Duration> {
    let seconds = value * unit_s;
    if (0.0..=MOST_S).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(Fault::Argument(format!("{name}={value} is no time")).into())
}

/// A time in microseconds.
pub(crate) fn us(name: &str, value: f64) -> PyResult<Duration> {
    time(name, value, 1e-6)
}

/// A time in milliseconds.
pub(crate) fn ms(name: &str, value: f64) -> PyResult<Duration> {
    time(name, value, 1e-3)
}

/// A time in seconds.
pub(crate) fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    time(name, value, 1.0)
}

/// A level.
pub(crate) fn level(value: &Bound<'_, PyAny>) -> PyResult<Level> {
    let number: u64 = whole("level", value)?;
    let level = u8::try_from(number).ok().and_then(Level::new);
    let text = || format!("level={number}: levels are 0 (most urgent) to 7");
    level.ok_or_else(|| Fault::Argument(text()).into())
}

/// The time slice of a TSG in microseconds.
pub(crate) fn timeslice(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<u32>> {
    let Some(value) = value else {
        return Ok(None);
    };
    let us: u32 = whole("timeslice_us", value)?;
    if !(10..=10_000_000).contains(&us) {
        let text = format!("timeslice_us={us}: time slices are 10 us to 10 s");
        return Err(Fault::Argument(text).into());
    }
    Ok(Some(us))
}
