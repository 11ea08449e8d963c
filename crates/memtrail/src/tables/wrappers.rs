//! Which functions only pass on what an allocator gives them.
//!
//! An object is what the program asked for where it asked for it, and that is seldom the call of malloc itself: it is in a function that checks for failure, in
//! `operator new`, in a container. Calls from such functions do not count in an object's call path: those that the user names, those whose name says that they
//! allocate, and code of a language's library. Functions that were inlined count as if they had been called, so that the answer does not depend on what the compiler inlined.
use super::names::{Code, Names};
use memtrail_analyze::objects::Wrapper;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Says of call sites whether they lie in a wrapper.
pub fn judge(names: Rc<Names>, named: &[String]) -> Wrapper {
    let named = named.to_vec();
    let known: RefCell<HashMap<u64, bool>> = RefCell::default();
    Box::new(move |site| {
        let known_already = known.borrow().get(&site).copied();
        known_already.unwrap_or_else(|| {
            let wrapper = names.code(site).inlined().iter().all(|code| wraps(code, &named));
            known.borrow_mut().insert(site, wrapper);
            wrapper
        })
    })
}

/// Whether the function of one frame only passes on what an allocator gives it; `named` are those of which the user says so.
pub fn wraps(code: &Code, named: &[String]) -> bool {
    let of_library = code.location.frames.first().is_some_and(|frame| frame.is_library());
    let by_name = |function: &str| named.iter().any(|name| name == function) || allocates(function);
    of_library || code.function().is_some_and(by_name)
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
