//! Which functions only pass on what an allocator gives them.
//!
//! An object is what the program asked for where it asked for it, and that is seldom the call of
//! malloc itself: it is in a function that checks for failure, in `operator new`, in a container.
//! Calls from such functions do not count in an object's call path: those that the user names,
//! those whose name says that they allocate, and code of a language's library. Functions that were
//! inlined count as if they had been called, so that the answer does not depend on what the
//! compiler inlined.
use crate::Location;

impl Location {
    /// Whether the function of its innermost frame only passes on what an allocator gives it;
    /// `named` are those of which the user says so.
    pub fn is_wrapper(&self, named: &[String]) -> bool {
        let of_library = self.frames.first().is_some_and(|frame| frame.is_library());
        let by_name = |function: &str| named.iter().any(|name| name == function) || allocates(function);
        let inlined = self.user_frame().and_then(|frame| frame.function.as_deref());
        of_library || inlined.or(self.function.as_deref()).is_some_and(by_name)
    }
}

/// Whether a function's name says that it allocates.
fn allocates(function: &str) -> bool {
    let name = unqualified(function);
    let small = name.to_ascii_lowercase();
    let parts = ["alloc", "memalign", "strdup", "strndup", "memdup"];
    let library = [
        "std::",
        "__gnu_cxx::",
        "alloc::",
        "<alloc::",
        "core::",
        "<core::",
        "hashbrown::",
        "<hashbrown::",
    ];
    function.starts_with("operator new")
        || library.iter().any(|prefix| function.starts_with(prefix))
        || parts.iter().any(|part| small.contains(part))
        || ["g_new", "_Znwm", "_Znam"].contains(&name)
}

/// Without namespaces, arguments and template parameters.
fn unqualified(function: &str) -> &str {
    let name = function.split(['(', '<']).next().unwrap_or(function);
    name.rsplit("::").next().unwrap_or(name).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_allocates() {
        for name in [
            "xmalloc",
            "operator new(unsigned long)",
            "PyObject_Malloc",
            "std::allocator<long>::allocate(unsigned long)",
            "alloc::raw_vec::RawVec<T,A>::try_allocate_in",
            "xstrdup",
            "__posix_memalign",
            "my_realloc",
            "std::map<int, long>::insert",
            "<alloc::raw_vec::RawVecInner>::grow",
        ] {
            assert!(allocates(name), "{name}");
        }
        for name in ["main", "push", "make_list", "render::Scene::insert"] {
            assert!(!allocates(name), "{name}");
        }
    }
}
