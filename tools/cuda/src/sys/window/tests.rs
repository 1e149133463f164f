// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with one small library in the place of CUDA and of GDRCopy, which keeps a list of its calls.

use super::*;
use crate::Error;
use std::ffi::{c_char, c_void, CStr, CString};
use std::path::PathBuf;

use libloading::Library;

use crate::sys::driver::tests::{fake, Fake};
use crate::sys::table::Functions;

/// Calls that can fail, in the order of an opening.
const CALLS: [&str; 6] = [
    "gdr_open",
    "gdr_get_attribute",
    "cuMemAlloc",
    "gdr_pin_buffer",
    "gdr_get_info_v2",
    "gdr_map",
];

/// The library. `off`: bytes by which its memory misses a page of the GPU. Functions of GDRCopy that are
/// among `without` are not there.
fn source(off: usize, without: &[&str]) -> String {
    let known: String = Functions::NAMES
        .iter()
        .map(|name| format!("\"{name}\", "))
        .collect();
    let absent = without
        .iter()
        .map(|name| format!("#define {name} absent_{name}\n"));
    let absent: String = absent.collect();
    format!(
        r#"
        {absent}
        #include <errno.h>
        #include <stdint.h>
        #include <stdlib.h>
        #include <string.h>
        static char list[4096];
        static const char *failing = "";
        static char *memory;
        const char *told(void) {{ return list; }}
        void fail(const char *name) {{ failing = strdup(name); list[0] = 0; }}
        static int is(const char *name) {{ return !strcmp(failing, name); }}
        static int say(const char *name) {{
            strcat(strcat(list, name), " ");
            return is(name) ? EIO : 0;
        }}
        static int good(void) {{ return 0; }}
        static int bad(void) {{ return 999; }}
        static int name(int error, const char **text) {{ *text = "CUDA_ERROR_FAKE"; return 0; }}
        static int current(void **context) {{ *context = (void *)8; return is("lost") ? 201 : 0; }}
        static int allocate(uint64_t *base, size_t length) {{
            if (say("cuMemAlloc"))
                return 2;
            memory = aligned_alloc(1 << 16, 4 << 16);
            *base = (uintptr_t)memory + {off};
            return length != 2 << 16;
        }}
        static int release(uint64_t base) {{
            if (base != (uintptr_t)memory + {off})
                return say("other");
            free(memory);
            return say("cuMemFree");
        }}
        static const char *const names[] = {{ {known} 0 }};
        int cuDriverGetVersion(int *version) {{ *version = 13000; return 0; }}
        int cuGetProcAddress(const char *symbol, void **found, int version, unsigned long flags)
        {{
            for (const char *const *known = names; *known; known++) {{
                if (strcmp(*known, symbol))
                    continue;
                *found = !strcmp(symbol, "cuInit") ? (void *)good :
                         !strcmp(symbol, "cuGetErrorName") ? (void *)name :
                         !strcmp(symbol, "cuCtxGetCurrent") ? (void *)current :
                         !strcmp(symbol, "cuMemAlloc") ? (void *)allocate :
                         !strcmp(symbol, "cuMemFree") ? (void *)release : (void *)bad;
                return 0;
            }}
            return 500;
        }}
        struct pin {{ unsigned long handle; }};
        struct info {{
            uint64_t va, mapped; uint32_t page; uint64_t cycles; uint32_t per_ms;
            unsigned is_mapped : 1; unsigned is_wc : 1; int kind;
        }};
        static char *base(void) {{ return memory + ({off} ? 1 << 16 : 0); }}
        void *gdr_open(void) {{ return say("gdr_open") ? 0 : (void *)7; }}
        int gdr_close(void *gdr) {{ return say(gdr == (void *)7 ? "gdr_close" : "other"); }}
        int gdr_get_attribute(void *gdr, int attribute, int *value) {{
            if (gdr != (void *)7 || attribute != 1)
                return EINVAL;
            *value = !is("persistence");
            return say("gdr_get_attribute");
        }}
        int gdr_pin_buffer(void *gdr, unsigned long address, size_t size, uint64_t token,
                           uint32_t space, struct pin *pin) {{
            if (gdr != (void *)7 || address != (uintptr_t)base() || size != 1 << 16 || token || space)
                return EINVAL;
            pin->handle = 9;
            return say("gdr_pin_buffer");
        }}
        int gdr_get_info_v2(void *gdr, struct pin pin, struct info *info) {{
            if (gdr != (void *)7 || pin.handle != 9)
                return EINVAL;
            *info = (struct info){{ (uintptr_t)base(), 1 << 16, 1 << 16 }};
            if (is("less"))
                info->mapped--;
            if (is("behind"))
                info->va++;
            if (is("before"))
                info->va -= 4096, info->mapped += 4096;
            return say("gdr_get_info_v2");
        }}
        int gdr_map(void *gdr, struct pin pin, void **place, size_t size) {{
            size_t more = is("before") ? 4096 : 0;
            if (gdr != (void *)7 || pin.handle != 9 || size != (1 << 16) + more)
                return EINVAL;
            *place = base() - more;
            return say("gdr_map");
        }}
        int gdr_unmap(void *gdr, struct pin pin, void *place, size_t size) {{
            size_t more = is("before") ? 4096 : 0;
            if (gdr != (void *)7 || pin.handle != 9 || size != (1 << 16) + more)
                return say("other");
            return say(place == base() - more ? "gdr_unmap" : "other");
        }}
        int gdr_unpin_buffer(void *gdr, struct pin pin) {{
            return say(gdr == (void *)7 && pin.handle == 9 ? "gdr_unpin_buffer" : "other");
        }}
        "#
    )
}

/// The library, and its list.
struct World {
    fake: Fake,
    library: Library,
    driver: Arc<Driver>,
}

impl World {
    fn new(off: usize, without: &[&str]) -> Self {
        let fake = fake(&source(off, without));
        // SAFETY: It has no initialisers.
        let library = unsafe { Library::new(&fake.path) }.unwrap();
        let driver = Driver::open(&fake.path).unwrap();
        Self {
            fake,
            library,
            driver,
        }
    }

    /// Has one call fail, and forgets the others.
    fn fail(&self, name: &str) {
        let name = CString::new(name).unwrap();
        // SAFETY: Such is its type; it copies the text.
        unsafe {
            let fail = self
                .library
                .get::<unsafe extern "C" fn(*const c_char)>(b"fail\0");
            fail.unwrap()(name.as_ptr());
        }
    }

    /// Calls since then.
    fn told(&self) -> Vec<String> {
        // SAFETY: Such is its type; the list ends with a zero.
        let list = unsafe {
            let told = self
                .library
                .get::<unsafe extern "C" fn() -> *const c_char>(b"told\0");
            CStr::from_ptr(told.unwrap()())
        };
        let list = list.to_str().unwrap().split_whitespace();
        list.map(str::to_owned).collect()
    }

    fn open(&self) -> Result<Window> {
        self.open_by(self.fake.path.clone())
    }

    fn open_by(&self, gdrcopy: PathBuf) -> Result<Window> {
        let handle = std::ptr::without_provenance_mut::<c_void>(8);
        // SAFETY: The library gives it as that of the thread.
        let context = unsafe { Context::from_raw(handle) }.unwrap();
        Window::new(&self.driver, context, &gdrcopy)
    }
}

#[test]
fn words_are_stored_at_their_addresses() {
    for off in [0, 512] {
        let world = World::new(off, &[]);
        let window = world.open().unwrap();
        assert_eq!(window.address(0) % PAGE as u64, 0);
        assert_eq!(window.address(3) - window.address(0), 3 * 64);
        // Memory of the library is at the addresses that it tells.
        let seen = |word: usize| {
            let place = window.address(word) as *const AtomicU32;
            // SAFETY: It is memory of the library, as long as the window.
            unsafe { &*place }.load(Ordering::Acquire)
        };
        for word in [0, 1, Window::WORDS - 1] {
            assert_eq!((seen(word), window.load(word)), (0, Some(0)));
            window.store(word, 7 + word as u32);
            assert_eq!(seen(word), 7 + word as u32);
        }
        window.store(Window::WORDS, 5);
        assert_eq!(window.load(Window::WORDS), None);
        drop(window);
        let mut calls: Vec<&str> = CALLS.to_vec();
        calls.extend(["gdr_unmap", "gdr_unpin_buffer", "gdr_close", "cuMemFree"]);
        assert_eq!(world.told(), calls, "{off}");
    }
}

#[test]
fn a_call_that_fails_leaves_nothing() {
    let world = World::new(512, &[]);
    for (at, call) in (0..).zip(CALLS) {
        world.fail(call);
        let error = world.open().unwrap_err();
        assert!(error.to_string().contains(call), "{error}");
        assert_eq!(matches!(error, Error::NoWindow(_)), call != "cuMemAlloc");
        let mut calls = CALLS[..=at].to_vec();
        if at >= 4 {
            calls.push("gdr_unpin_buffer");
        }
        if at >= 1 {
            calls.push("gdr_close");
        }
        if at >= 3 {
            calls.push("cuMemFree");
        }
        assert_eq!(world.told(), calls, "{call}");
    }
}

#[test]
fn ends_that_fail_are_followed_by_the_others() {
    let world = World::new(0, &[]);
    let ends = ["gdr_unmap", "gdr_unpin_buffer", "gdr_close", "cuMemFree"];
    for call in ends {
        let window = world.open().unwrap();
        world.fail(call);
        drop(window);
        assert_eq!(world.told(), ends, "{call}");
    }
}

#[test]
fn a_context_that_is_gone_has_taken_the_memory_along() {
    let world = World::new(0, &[]);
    let window = world.open().unwrap();
    world.fail("lost");
    window.store(0, 9);
    assert_eq!(window.load(0), Some(9));
    drop(window);
    let left = ["gdr_unmap", "gdr_unpin_buffer", "gdr_close"];
    assert_eq!(world.told(), left);
}

#[test]
fn mappings_that_end_with_their_memory_are_refused() {
    let world = World::new(0, &[]);
    world.fail("persistence");
    let error = world.open().unwrap_err().to_string();
    assert!(error.contains("use_persistent_mapping=1"), "{error}");
    assert_eq!(world.told(), ["gdr_open", "gdr_get_attribute", "gdr_close"]);
}

#[test]
fn memory_is_pinned_as_it_was_asked_or_found_in_more() {
    let world = World::new(512, &[]);
    for wrong in ["less", "behind"] {
        world.fail(wrong);
        let error = world.open().unwrap_err().to_string();
        assert!(error.contains("has pinned other memory"), "{error}");
        assert_eq!(world.told().last().map(String::as_str), Some("cuMemFree"));
    }
    world.fail("before");
    let window = world.open().unwrap();
    window.store(2, 6);
    let place = window.address(2) as *const AtomicU32;
    // SAFETY: It is memory of the library, as long as the window.
    assert_eq!(unsafe { &*place }.load(Ordering::Acquire), 6);
    drop(window);
    assert!(!world.told().contains(&"other".to_owned()));
}

#[test]
fn a_library_that_is_missing_or_old_is_one_sentence() {
    let world = World::new(0, &["gdr_get_attribute", "gdr_map"]);
    let error = world.open().unwrap_err().to_string();
    assert!(
        error.ends_with("lacks gdr_get_attribute, gdr_map; GDRCopy has all from 2.5 on"),
        "{error}"
    );
    let none = PathBuf::from("/nonexistent/libgdrapi.so.2");
    let error = world.open_by(none).unwrap_err().to_string();
    let start = "no word in memory of the GPU: /nonexistent/libgdrapi.so.2 cannot be loaded: ";
    assert!(error.starts_with(start), "{error}");
    assert_eq!(error.lines().count(), 1);
    assert_eq!(world.told(), [""; 0]);
}
