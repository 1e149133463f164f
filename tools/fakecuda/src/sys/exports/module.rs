// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules and libraries, functions, launches.

use std::ffi::{c_char, c_int, c_uint, c_void, CString};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::call::{self, Call};
use crate::capture;
use crate::cost::{Size, BLOCKS, THREADS};
use crate::driver::{self, driver, lock, Object};
use crate::module::{Function, Image, Module};
use crate::status::{Result, Status};
use crate::sys::args::{functions, Arguments, Code, Handle, In, Out, StreamOf, Text};

/// The most that a block can have.
const MOST_THREADS: u64 = 1_024;
/// The most blocks of a grid in its first dimension.
const MOST_BLOCKS: u64 = i32::MAX as u64;
/// Shared memory of a block that asks for more than usual, and of a multiprocessor, in bytes.
const SHARED: u64 = 100 << 10;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const DYNAMIC: c_int = 8;
/// That, and the share of shared memory in the cache.
const SETTABLE: [c_int; 2] = [DYNAMIC, 9];

/// A module is on the GPU at once, which waits for all work of the context; a library when one of its
/// kernels is first launched.
fn load(module: Out<Handle>, image: &Image, is_library: bool) -> Result<()> {
    let context = driver::current()?;
    module.check()?;
    capture::refuse_unsafe()?;
    let loaded = Module::load(&context, image)?;
    if is_library {
        loaded.is_late.store(true, Ordering::Relaxed);
    } else {
        context.synchronize()?;
    }
    let driver = driver()?;
    let handle = driver.new_handle();
    driver.insert(handle, Object::Module(Arc::new(loaded)));
    module.set(handle)
}

fn unload(handle: Handle) -> Result<()> {
    let driver = driver()?;
    let module = driver.module(handle)?;
    let context = driver.context(module.context)?;
    capture::refuse_all(&context)?;
    context.synchronize()?;
    driver.remove(handle);
    module.free();
    let is_of = |object: &Object| match object {
        Object::Function(function) => function.module == handle,
        _ => false,
    };
    driver.retain(|object| !is_of(object));
    Ok(())
}

fn get_function(function: Out<Handle>, module: Handle, name: Text) -> Result<()> {
    let driver = driver()?;
    function.check()?;
    let name = name.get()?;
    let found = driver.module(module)?.function(module, &name, |new| {
        let handle = driver.new_handle();
        driver.insert(handle, Object::Function(new));
        handle
    })?;
    function.set(found)
}

fn read_file(name: Text) -> Result<Image> {
    let content = std::fs::read(name.get()?).map_err(|_| Status::FILE_NOT_FOUND)?;
    let is_text = !content.starts_with(b"\x7fELF") && !content.contains(&0);
    match String::from_utf8(content) {
        Ok(text) if is_text => Ok(Image::Text(text)),
        _ => Ok(Image::Binary),
    }
}

/// A launch, with its sizes as cuda.h orders them: grid, block, bytes of shared memory.
pub(super) fn kernel(
    function: &Arc<Function>,
    sizes: [c_uint; 7],
    arguments: Arguments,
) -> Result<Call> {
    let [x, y, z, a, b, c, shared] = sizes.map(u64::from);
    let size = Size {
        blocks: x.saturating_mul(y).saturating_mul(z),
        threads: a.saturating_mul(b).saturating_mul(c),
    };
    let is_grid = x <= MOST_BLOCKS && y <= 65_535 && z <= 65_535;
    let is_block = c <= 64 && size.threads <= MOST_THREADS;
    let most = u64::try_from(attribute(function, DYNAMIC)?).unwrap_or(0);
    if size.blocks == 0 || size.threads == 0 || !is_grid || !is_block || shared > most {
        return Err(Status::INVALID_VALUE);
    }
    let bytes = arguments.read(&function.entry.parameters)?;
    Ok(Call::Kernel(function.clone(), size, bytes.into()))
}

fn launch(
    function: Handle,
    sizes: [c_uint; 7],
    stream: StreamOf,
    arguments: Arguments,
) -> Result<()> {
    let target = stream.target()?;
    let function = driver()?.function(function)?;
    if function.context != target.context.handle {
        return Err(Status::INVALID_HANDLE);
    }
    let module = driver()?.module(function.module)?;
    if module.is_late.swap(false, Ordering::Relaxed) {
        target.context.synchronize()?;
    }
    call::run(&target, kernel(&function, sizes, arguments)?)
}

/// `CUlaunchConfig`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Config {
    sizes: [c_uint; 7],
    stream: StreamOf,
    attributes: In<Attribute>,
    count: c_uint,
}

/// `CUlaunchAttribute`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Attribute {
    id: c_uint,
    padding: c_uint,
    value: [u64; 8],
}

impl Attribute {
    /// Those that change nothing here: none at all, windows of the cache, cooperation, order beside
    /// the kernel before, priority, domains of memory, the share of shared memory.
    const WITHOUT_EFFECT: [c_uint; 8] = [0, 1, 2, 6, 8, 9, 10, 14];

    fn check(self) -> Result<()> {
        match Self::WITHOUT_EFFECT.contains(&self.id) {
            true => Ok(()),
            false => Err(Status::NOT_SUPPORTED),
        }
    }
}

fn launch_ex(
    config: In<Config>,
    function: Handle,
    arguments: Arguments,
    is_per_thread: bool,
) -> Result<()> {
    use crate::sys::args::Argument;
    let config = config.get()?;
    let attributes = config.attributes.list(config.count as usize)?;
    attributes.into_iter().try_for_each(Attribute::check)?;
    let stream = match is_per_thread {
        true => config.stream.per_thread(),
        false => config.stream,
    };
    launch(function, config.sizes, stream, arguments)
}

fn attribute(function: &Function, attribute: c_int) -> Result<c_int> {
    let set = lock(&function.attributes);
    Ok(match attribute {
        0 => MOST_THREADS as c_int,
        4 => 16,
        5 => 64,
        6 => 90,
        DYNAMIC => set.get(&attribute).copied().unwrap_or(48 << 10),
        9 => set.get(&attribute).copied().unwrap_or(-1),
        1 | 2 | 3 | 7 | 10..=17 => 0,
        _ => return Err(Status::INVALID_VALUE),
    })
}

fn set_attribute(function: &Function, attribute: c_int, value: c_int) -> Result<()> {
    let bytes = u64::try_from(value).unwrap_or(0);
    if !SETTABLE.contains(&attribute) || (attribute == DYNAMIC && bytes > SHARED) {
        return Err(Status::INVALID_VALUE);
    }
    let mut set = lock(&function.attributes);
    set.insert(attribute, value);
    Ok(())
}

/// Blocks of a kernel that a multiprocessor has at once.
fn occupancy(threads: c_int, shared: usize) -> Result<u64> {
    let threads = u64::try_from(threads)
        .ok()
        .filter(|threads| (1..=MOST_THREADS).contains(threads));
    let threads = threads.ok_or(Status::INVALID_VALUE)?;
    let by_threads = (THREADS / threads.next_multiple_of(32)).min(BLOCKS);
    match shared as u64 {
        0 => Ok(by_threads),
        shared => Ok(by_threads.min(SHARED / shared)),
    }
}

fn parameter(function: &Function, at: usize, offset: Out<usize>, size: Out<usize>) -> Result<()> {
    let parameter = function
        .entry
        .parameters
        .get(at)
        .ok_or(Status::INVALID_VALUE)?;
    offset.set(parameter.offset)?;
    size.set_if_wanted(parameter.size);
    Ok(())
}

/// A name that stays, for a kernel that may go.
fn lasting(name: &str) -> Result<*const c_char> {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    static NAMES: Mutex<BTreeMap<String, CString>> = Mutex::new(BTreeMap::new());
    let mut names = lock(&NAMES);
    if let Some(known) = names.get(name) {
        return Ok(known.as_ptr());
    }
    let text = CString::new(name).map_err(|_| Status::UNKNOWN)?;
    // The text does not move with it.
    let known = names.entry(name.to_owned()).or_insert(text);
    Ok(known.as_ptr())
}

functions! {
    cuModuleLoad(module: Out<Handle>, name: Text) {
        driver()?;
        load(module, &read_file(name)?, false)
    }

    cuModuleLoadData(module: Out<Handle>, image: Code) {
        driver()?;
        load(module, &image.get()?, false)
    }

    cuModuleLoadDataEx(
        module: Out<Handle>, image: Code, count: c_uint, options: In<c_int>, values: In<u64>
    ) {
        let _ = (count, options, values);
        driver()?;
        load(module, &image.get()?, false)
    }

    cuModuleLoadFatBinary(module: Out<Handle>, image: Code) {
        let _ = module;
        driver::current()?;
        image.get()?;
        Err(Status::NO_BINARY_FOR_GPU)
    }

    cuModuleUnload(module: Handle) {
        unload(module)
    }

    cuModuleGetLoadingMode(mode: Out<c_int>) {
        driver()?;
        // All is loaded at once.
        mode.set(1)
    }

    cuModuleGetFunction(function: Out<Handle>, module: Handle, name: Text) {
        get_function(function, module, name)
    }

    cuModuleGetFunctionCount(count: Out<c_uint>, module: Handle) {
        count.set(driver()?.module(module)?.entries.len() as c_uint)
    }

    cuModuleGetGlobal_v2(address: Out<u64>, bytes: Out<usize>, module: Handle, name: Text) {
        let (base, length) = driver()?.module(module)?.variable(&name.get()?)?;
        address.set_if_wanted(base);
        bytes.set_if_wanted(length as usize);
        Ok(())
    }

    cuLibraryLoadData(
        library: Out<Handle>, image: Code, options: In<c_int>, values: In<u64>, count: c_uint,
        library_options: In<c_int>, library_values: In<u64>, library_count: c_uint
    ) {
        let _ = (options, values, count, library_options, library_values, library_count);
        driver()?;
        load(library, &image.get()?, true)
    }

    cuLibraryLoadFromFile(
        library: Out<Handle>, name: Text, options: In<c_int>, values: In<u64>, count: c_uint,
        library_options: In<c_int>, library_values: In<u64>, library_count: c_uint
    ) {
        let _ = (options, values, count, library_options, library_values, library_count);
        driver()?;
        load(library, &read_file(name)?, true)
    }

    cuLibraryUnload(library: Handle) {
        unload(library)
    }

    cuLibraryGetKernel(kernel: Out<Handle>, library: Handle, name: Text) {
        get_function(kernel, library, name)
    }

    cuLibraryGetModule(module: Out<Handle>, library: Handle) {
        driver()?.module(library)?;
        module.set(library)
    }

    cuLibraryGetGlobal(address: Out<u64>, bytes: Out<usize>, library: Handle, name: Text) {
        let (base, length) = driver()?.module(library)?.variable(&name.get()?)?;
        address.set_if_wanted(base);
        bytes.set_if_wanted(length as usize);
        Ok(())
    }

    cuKernelGetFunction(function: Out<Handle>, kernel: Handle) {
        driver()?.function(kernel)?;
        function.set(kernel)
    }

    cuKernelGetName(name: Out<*const c_char>, kernel: Handle) {
        name.set(lasting(&driver()?.function(kernel)?.entry.name)?)
    }

    cuKernelGetAttribute(value: Out<c_int>, attribute: c_int, kernel: Handle, device: c_int) {
        driver()?.device(device)?;
        value.set(self::attribute(&*driver()?.function(kernel)?, attribute)?)
    }

    cuKernelSetAttribute(attribute: c_int, value: c_int, kernel: Handle, device: c_int) {
        driver()?.device(device)?;
        set_attribute(&*driver()?.function(kernel)?, attribute, value)
    }

    cuKernelGetParamInfo(kernel: Handle, at: usize, offset: Out<usize>, size: Out<usize>) {
        parameter(&*driver()?.function(kernel)?, at, offset, size)
    }

    cuFuncGetName(name: Out<*const c_char>, function: Handle) {
        name.set(lasting(&driver()?.function(function)?.entry.name)?)
    }

    cuFuncGetModule(module: Out<Handle>, function: Handle) {
        module.set(driver()?.function(function)?.module)
    }

    cuFuncGetAttribute(value: Out<c_int>, attribute: c_int, function: Handle) {
        value.set(self::attribute(&*driver()?.function(function)?, attribute)?)
    }

    cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) {
        set_attribute(&*driver()?.function(function)?, attribute, value)
    }

    cuFuncGetParamInfo(function: Handle, at: usize, offset: Out<usize>, size: Out<usize>) {
        parameter(&*driver()?.function(function)?, at, offset, size)
    }

    cuFuncIsLoaded(state: Out<c_int>, function: Handle) {
        driver()?.function(function)?;
        state.set(1)
    }

    cuFuncLoad(function: Handle) {
        driver()?.function(function).map(|_| ())
    }

    cuFuncSetCacheConfig(function: Handle, config: c_int) {
        let _ = config;
        driver()?.function(function).map(|_| ())
    }

    cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: Out<c_int>, function: Handle, threads: c_int, shared: usize
    ) {
        driver()?.function(function)?;
        blocks.set(occupancy(threads, shared)? as c_int)
    }

    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<c_int>, function: Handle, threads: c_int, shared: usize, flags: c_uint
    ) {
        driver()?.function(function)?;
        match flags {
            0 | 1 => blocks.set(occupancy(threads, shared)? as c_int),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    [cuLaunchKernel cuLaunchKernel_ptsz](
        function: Handle, x: c_uint, y: c_uint, z: c_uint, a: c_uint, b: c_uint, c: c_uint,
        shared: c_uint, stream: StreamOf, places: In<u64>, extra: In<u64>
    ) {
        launch(function, [x, y, z, a, b, c, shared], stream, Arguments { places, extra })
    }

    [cuLaunchCooperativeKernel cuLaunchCooperativeKernel_ptsz](
        function: Handle, x: c_uint, y: c_uint, z: c_uint, a: c_uint, b: c_uint, c: c_uint,
        shared: c_uint, stream: StreamOf, places: In<u64>
    ) {
        let extra = In::from_address(0);
        launch(function, [x, y, z, a, b, c, shared], stream, Arguments { places, extra })
    }

    cuLaunchKernelEx(config: In<Config>, function: Handle, places: In<u64>, extra: In<u64>) {
        launch_ex(config, function, Arguments { places, extra }, false)
    }

    cuLaunchKernelEx_ptsz(config: In<Config>, function: Handle, places: In<u64>, extra: In<u64>) {
        launch_ex(config, function, Arguments { places, extra }, true)
    }

    [cuLaunchHostFunc cuLaunchHostFunc_ptsz](
        stream: StreamOf, function: Option<unsafe extern "C" fn(*mut c_void)>, value: usize
    ) {
        let target = stream.target()?;
        let function = function.ok_or(Status::INVALID_VALUE)?;
        call::run(&target, Call::Host(crate::sys::process::Callback::Host(function, value)))
    }

    [cuStreamAddCallback cuStreamAddCallback_ptsz](
        stream: StreamOf, function: Option<unsafe extern "C" fn(*mut c_void, c_int, *mut c_void)>,
        value: usize, flags: c_uint
    ) {
        use crate::sys::process::Callback;
        let target = stream.target()?;
        let function = function.filter(|_| flags == 0).ok_or(Status::INVALID_VALUE)?;
        capture::refuse(&target)?;
        call::run(&target, Call::Host(Callback::Stream(function, stream.0, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupancy_is_bounded_by_threads_blocks_and_shared_memory() {
        assert_eq!(occupancy(1_024, 0), Ok(2));
        assert_eq!(occupancy(1, 0), Ok(32));
        assert_eq!(occupancy(256, 50 << 10), Ok(2));
        assert_eq!(occupancy(256, 101 << 10), Ok(0));
        assert_eq!(occupancy(0, 0), Err(Status::INVALID_VALUE));
        assert_eq!(occupancy(1_025, 0), Err(Status::INVALID_VALUE));
    }

    #[test]
    fn the_configuration_is_that_of_the_header() {
        use std::mem::{offset_of, size_of};
        assert_eq!((offset_of!(Config, stream), size_of::<Config>()), (32, 56));
        let places = (offset_of!(Config, attributes), offset_of!(Config, count));
        assert_eq!(places, (40, 48));
        let value = offset_of!(Attribute, value);
        assert_eq!((value, size_of::<Attribute>()), (8, 72));
    }

    #[test]
    fn names_stay_where_they_are() {
        let name = lasting("a").unwrap();
        lasting("b").unwrap();
        assert_eq!(lasting("a").unwrap(), name);
    }
}
