// SPDX-License-Identifier: MIT OR Apache-2.0
//! Libraries beside CUDA that are found when a program runs: their functions, by name and form.

/// Declares the functions of a library, with the types that they have in C, as a `struct Functions`.
/// `Functions::find` finds them in a library, or tells the names of those that it lacks.
#[macro_export]
macro_rules! functions {
    ($visible:vis struct Functions; $($name:ident = $symbol:literal ($($argument:ty),* $(,)?) -> $result:ty;)*) => {
        /// The functions.
        ///
        /// # Invariants
        ///
        /// They are those of `_library`, which is loaded as long as this is.
        #[derive(Debug)]
        $visible struct Functions {
            $($visible $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            _library: $crate::Library,
        }

        impl Functions {
            /// Of a library; the names of those that it lacks.
            $visible fn find(library: $crate::Library) -> Result<Self, Vec<&'static str>> {
                let mut absent = Vec::new();
                $(
                    // SAFETY: The type is that of the library's header for this name.
                    let $name = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> $result>(
                            $symbol.as_bytes(),
                        )
                    };
                    let $name = $name.map(|found| *found).map_err(|_| absent.push($symbol)).ok();
                )*
                match ($($name,)*) {
                    // INVARIANT: Each was found in the library.
                    ($(Some($name),)*) => Ok(Self { $($name,)* _library: library }),
                    _ => Err(absent),
                }
            }
        }
    };
}
