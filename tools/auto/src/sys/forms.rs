// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the driver that are seen: each form that a program can get, by its symbol, and
//! by the name, the version and the kind of default stream that `cuGetProcAddress` takes.

use std::ffi::CStr;

/// A form of a function.
#[derive(Debug)]
pub struct Known {
    /// Its exported name.
    pub symbol: &'static CStr,
    /// The name without a form.
    pub name: &'static CStr,
    /// The version of CUDA that brought the form.
    pub version: i32,
    /// Default streams are those of threads.
    pub is_per_thread: bool,
}

/// Text that ends with the zero that it needs.
pub const fn text(bytes: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(bytes.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a name has a zero"),
    }
}

macro_rules! forms {
    ($($symbol:ident = $name:literal $version:literal $is_per_thread:literal;)*) => {
        /// A form, by its exported name.
        #[allow(non_camel_case_types)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Form {
            $($symbol,)*
        }

        /// All of them.
        pub const FORMS: &[Known] = &[
            $(Known {
                symbol: text(concat!(stringify!($symbol), "\0")),
                name: text(concat!($name, "\0")),
                version: $version,
                is_per_thread: $is_per_thread,
            },)*
        ];

        /// The function of this library in the place of a form.
        pub fn wrapper(form: usize) -> usize {
            const FORMS: &[Form] = &[$(Form::$symbol,)*];
            match FORMS.get(form) {
                $(Some(Form::$symbol) => super::functions::$symbol as *const () as usize,)*
                None => 0,
            }
        }
    };
}

forms! {
    cuGetProcAddress = "cuGetProcAddress" 11030 false;
    cuGetProcAddress_v2 = "cuGetProcAddress" 12000 false;

    cuMemcpy = "cuMemcpy" 4000 false;
    cuMemcpy_ptds = "cuMemcpy" 7000 true;
    cuMemcpyAsync = "cuMemcpyAsync" 4000 false;
    cuMemcpyAsync_ptsz = "cuMemcpyAsync" 7000 true;
    cuMemcpyHtoD_v2 = "cuMemcpyHtoD" 3020 false;
    cuMemcpyHtoD_v2_ptds = "cuMemcpyHtoD" 7000 true;
    cuMemcpyHtoDAsync_v2 = "cuMemcpyHtoDAsync" 3020 false;
    cuMemcpyHtoDAsync_v2_ptsz = "cuMemcpyHtoDAsync" 7000 true;
    cuMemcpyDtoH_v2 = "cuMemcpyDtoH" 3020 false;
    cuMemcpyDtoH_v2_ptds = "cuMemcpyDtoH" 7000 true;
    cuMemcpyHtoA_v2 = "cuMemcpyHtoA" 3020 false;
    cuMemcpyHtoA_v2_ptds = "cuMemcpyHtoA" 7000 true;
    cuMemcpyHtoAAsync_v2 = "cuMemcpyHtoAAsync" 3020 false;
    cuMemcpyHtoAAsync_v2_ptsz = "cuMemcpyHtoAAsync" 7000 true;
    cuMemcpyAtoH_v2 = "cuMemcpyAtoH" 3020 false;
    cuMemcpyAtoH_v2_ptds = "cuMemcpyAtoH" 7000 true;
    cuMemcpy2D_v2 = "cuMemcpy2D" 3020 false;
    cuMemcpy2D_v2_ptds = "cuMemcpy2D" 7000 true;
    cuMemcpy2DUnaligned_v2 = "cuMemcpy2DUnaligned" 3020 false;
    cuMemcpy2DUnaligned_v2_ptds = "cuMemcpy2DUnaligned" 7000 true;
    cuMemcpy2DAsync_v2 = "cuMemcpy2DAsync" 3020 false;
    cuMemcpy2DAsync_v2_ptsz = "cuMemcpy2DAsync" 7000 true;
    cuMemcpy3D_v2 = "cuMemcpy3D" 3020 false;
    cuMemcpy3D_v2_ptds = "cuMemcpy3D" 7000 true;
    cuMemcpy3DAsync_v2 = "cuMemcpy3DAsync" 3020 false;
    cuMemcpy3DAsync_v2_ptsz = "cuMemcpy3DAsync" 7000 true;

    cuLaunchKernel = "cuLaunchKernel" 4000 false;
    cuLaunchKernel_ptsz = "cuLaunchKernel" 7000 true;
    cuLaunchKernelEx = "cuLaunchKernelEx" 11060 false;
    cuLaunchKernelEx_ptsz = "cuLaunchKernelEx" 11060 true;
    cuLaunchCooperativeKernel = "cuLaunchCooperativeKernel" 9000 false;
    cuLaunchCooperativeKernel_ptsz = "cuLaunchCooperativeKernel" 9000 true;
    cuGraphLaunch = "cuGraphLaunch" 10000 false;
    cuGraphLaunch_ptsz = "cuGraphLaunch" 10000 true;

    cuStreamSynchronize = "cuStreamSynchronize" 2000 false;
    cuStreamSynchronize_ptsz = "cuStreamSynchronize" 7000 true;
    cuStreamQuery = "cuStreamQuery" 2000 false;
    cuStreamQuery_ptsz = "cuStreamQuery" 7000 true;
    cuEventSynchronize = "cuEventSynchronize" 2000 false;
    cuEventQuery = "cuEventQuery" 2000 false;
    cuEventRecord = "cuEventRecord" 2000 false;
    cuEventRecord_ptsz = "cuEventRecord" 7000 true;
    cuEventRecordWithFlags = "cuEventRecordWithFlags" 11010 false;
    cuEventRecordWithFlags_ptsz = "cuEventRecordWithFlags" 11010 true;
    cuCtxSynchronize = "cuCtxSynchronize" 2000 false;
    cuCtxSynchronize_v2 = "cuCtxSynchronize" 13000 false;

    cuCtxCreate_v2 = "cuCtxCreate" 3020 false;
    cuCtxCreate_v3 = "cuCtxCreate" 11040 false;
    cuCtxCreate_v4 = "cuCtxCreate" 12050 false;
    cuCtxDestroy = "cuCtxDestroy" 2000 false;
    cuCtxDestroy_v2 = "cuCtxDestroy" 4000 false;
    cuCtxDetach = "cuCtxDetach" 2000 false;
    cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain" 7000 false;
    cuDevicePrimaryCtxRelease = "cuDevicePrimaryCtxRelease" 7000 false;
    cuDevicePrimaryCtxRelease_v2 = "cuDevicePrimaryCtxRelease" 11000 false;
    cuDevicePrimaryCtxReset = "cuDevicePrimaryCtxReset" 7000 false;
    cuDevicePrimaryCtxReset_v2 = "cuDevicePrimaryCtxReset" 11000 false;

    cuMemFree_v2 = "cuMemFree" 3020 false;
    cuMemFreeHost = "cuMemFreeHost" 2000 false;
    cuMemHostUnregister = "cuMemHostUnregister" 4000 false;
    cuModuleLoad = "cuModuleLoad" 2000 false;
    cuModuleLoadData = "cuModuleLoadData" 2000 false;
    cuModuleLoadDataEx = "cuModuleLoadDataEx" 2010 false;
    cuModuleLoadFatBinary = "cuModuleLoadFatBinary" 2000 false;
    cuModuleUnload = "cuModuleUnload" 2000 false;
    cuLibraryUnload = "cuLibraryUnload" 12000 false;
}

/// The form with an exported name.
pub fn by_symbol(symbol: &CStr) -> Option<usize> {
    FORMS.iter().position(|known| known.symbol == symbol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_form_is_there_once() {
        let symbols: BTreeSet<_> = FORMS.iter().map(|known| known.symbol).collect();
        assert_eq!(symbols.len(), FORMS.len());
        let wrappers: BTreeSet<_> = (0..FORMS.len()).map(wrapper).collect();
        assert_eq!(wrappers.len(), FORMS.len());
        assert!(!wrappers.contains(&0));
        assert_eq!(wrapper(FORMS.len()), 0);
    }

    #[test]
    fn the_library_shows_each() {
        let map = include_str!("../../libzernel-auto.map");
        let shown = map.lines().filter_map(|line| line.strip_prefix('\t'));
        let shown = shown.filter_map(|line| line.strip_suffix(';'));
        let shown: BTreeSet<_> = shown.filter(|name| name.starts_with("cu")).collect();
        let known = FORMS.iter().map(|known| known.symbol.to_str().unwrap());
        assert_eq!(shown, known.collect());
    }

    #[test]
    fn symbols_are_names_with_a_form() {
        for (at, known) in FORMS.iter().enumerate() {
            let [symbol, name] = [known.symbol, known.name].map(|text| text.to_str().unwrap());
            let form = symbol.strip_prefix(name).unwrap();
            let per_thread = form.ends_with("_ptsz") || form.ends_with("_ptds");
            assert_eq!(per_thread, known.is_per_thread, "{symbol}");
            assert_eq!(by_symbol(known.symbol), Some(at));
        }
        assert_eq!(by_symbol(c"cuInit"), None);
        assert_eq!(by_symbol(c"cuLaunchKernel_"), None);
    }
}
