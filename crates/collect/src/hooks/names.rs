//! Names of functions that allocate.
use memtrail_ring::hook::{Action, Function};
use std::collections::HashMap;

/// The functions to be hooked, by name.
#[derive(Clone, Debug, Default)]
pub struct Allocators {
    functions: HashMap<String, Function>,
}

const fn allocate(size: u8, times: u8) -> Function {
    Function::new(Action::Allocate, size, times, 0)
}
const fn free(block: u8) -> Function {
    Function::new(Action::Free, 0, 0, block)
}
const fn resize(block: u8, size: u8, times: u8) -> Function {
    Function::new(Action::Resize, size, times, block)
}

/// What the C library has. Other allocators have the same with a prefix.
const C: [(&str, Function); 11] = [
    ("malloc", allocate(1, 0)),
    ("calloc", allocate(1, 2)),
    ("realloc", resize(1, 2, 0)),
    ("reallocarray", resize(1, 2, 3)),
    ("free", free(1)),
    ("cfree", free(1)),
    ("memalign", allocate(2, 0)),
    ("aligned_alloc", allocate(2, 0)),
    ("posix_memalign", Function::new(Action::Store, 3, 0, 1)),
    ("valloc", allocate(1, 0)),
    ("pvalloc", allocate(1, 0)),
];

/// jemalloc's own.
const JEMALLOC: [(&str, Function); 4] = [
    ("mallocx", allocate(1, 0)),
    ("rallocx", resize(1, 2, 0)),
    ("dallocx", free(1)),
    ("sdallocx", free(1)),
];

/// mimalloc's own, behind `mi_`.
const MIMALLOC: [(&str, Function); 22] = [
    ("zalloc", allocate(1, 0)),
    ("malloc_small", allocate(1, 0)),
    ("zalloc_small", allocate(1, 0)),
    ("mallocn", allocate(1, 2)),
    ("malloc_aligned", allocate(1, 0)),
    ("zalloc_aligned", allocate(1, 0)),
    ("calloc_aligned", allocate(1, 2)),
    ("new", allocate(1, 0)),
    ("new_n", allocate(1, 2)),
    ("new_nothrow", allocate(1, 0)),
    ("new_aligned", allocate(1, 0)),
    ("new_aligned_nothrow", allocate(1, 0)),
    ("reallocn", resize(1, 2, 3)),
    ("recalloc", resize(1, 2, 3)),
    ("rezalloc", resize(1, 2, 0)),
    ("realloc_aligned", resize(1, 2, 0)),
    ("new_realloc", resize(1, 2, 0)),
    ("heap_malloc", allocate(2, 0)),
    ("heap_zalloc", allocate(2, 0)),
    ("heap_calloc", allocate(2, 3)),
    ("free_size", free(1)),
    ("free_aligned", free(1)),
];

/// tcmalloc's own, behind `tc_`.
const TCMALLOC: [(&str, Function); 15] = [
    ("new", allocate(1, 0)),
    ("newarray", allocate(1, 0)),
    ("new_nothrow", allocate(1, 0)),
    ("newarray_nothrow", allocate(1, 0)),
    ("new_aligned", allocate(1, 0)),
    ("newarray_aligned", allocate(1, 0)),
    ("new_aligned_nothrow", allocate(1, 0)),
    ("newarray_aligned_nothrow", allocate(1, 0)),
    ("delete", free(1)),
    ("deletearray", free(1)),
    ("delete_sized", free(1)),
    ("deletearray_sized", free(1)),
    ("delete_nothrow", free(1)),
    ("deletearray_nothrow", free(1)),
    ("free_sized", free(1)),
];

/// `operator new`, `operator delete` and those of arrays, with all that may follow: alignment,
/// nothrow; size.
const NEW: [&str; 2] = ["_Znwm", "_Znam"];
const AFTER_NEW: [&str; 4] = ["", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t"];
const DELETE: [&str; 2] = ["_ZdlPv", "_ZdaPv"];
const AFTER_DELETE: [&str; 6] = [
    "",
    "m",
    "RKSt9nothrow_t",
    "St11align_val_t",
    "mSt11align_val_t",
    "St11align_val_tRKSt9nothrow_t",
];

/// Ways in which calls end without returning.
const CATCH: [&str; 1] = ["__cxa_begin_catch"];
const THROW: [&str; 1] = ["__cxa_allocate_exception"];
const JUMP: [&str; 5] = ["longjmp", "_longjmp", "siglongjmp", "__longjmp_chk", "____longjmp_chk"];

impl Allocators {
    /// None.
    pub fn none() -> Allocators {
        Allocators::default()
    }

    /// Those of the C and C++ libraries, jemalloc, tcmalloc and mimalloc.
    pub fn standard() -> Allocators {
        let mut functions = HashMap::new();
        let mut add = |prefix: &str, list: &[(&str, Function)]| {
            for (name, function) in list {
                functions.insert(format!("{prefix}{name}"), *function);
            }
        };
        for prefix in ["", "__libc_", "__", "je_", "_rjem_", "tc_", "mi_"] {
            add(prefix, &C);
        }
        for prefix in ["", "je_", "_rjem_"] {
            add(prefix, &JEMALLOC);
        }
        add("tc_", &TCMALLOC);
        add("mi_", &MIMALLOC);
        for (names, endings, function) in [
            (NEW, &AFTER_NEW[..], allocate(1, 0)),
            (DELETE, &AFTER_DELETE[..], free(1)),
        ] {
            for name in names {
                endings.iter().for_each(|ending| add(name, &[(ending, function)]));
            }
        }
        add("", &CATCH.map(|name| (name, Function::new(Action::Catch, 0, 0, 0))));
        add("", &THROW.map(|name| (name, Function::new(Action::Throw, 0, 0, 0))));
        add("", &JUMP.map(|name| (name, Function::new(Action::Jump, 0, 0, 0))));
        Allocators { functions }
    }

    /// A function of the program's own that returns a block, of the size that is this argument,
    /// from 1.
    pub fn allocates(&mut self, name: &str, argument: u8) {
        self.named(name, allocate(argument, 0));
    }

    /// One that gives a block back: this argument, from 1.
    pub fn frees(&mut self, name: &str, argument: u8) {
        self.named(name, free(argument));
    }

    fn named(&mut self, name: &str, function: Function) {
        let function = Function {
            by_user: true,
            ..function
        };
        self.functions.insert(name.to_owned(), function);
    }

    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function of this name.
    pub(super) fn find(&self, name: &str) -> Option<Function> {
        self.functions.get(name).copied()
    }
}

/// Of two names for one function, the one that is rather shown comes first: plain ones, then those
/// with underscores.
pub(super) fn rank(name: &str) -> (usize, usize, &str) {
    let underscores = name.bytes().take_while(|&b| b == b'_').count();
    (underscores, name.len(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_known() {
        let standard = Allocators::standard();
        for (name, expected) in [
            ("malloc", allocate(1, 0)),
            ("__libc_calloc", allocate(1, 2)),
            ("je_realloc", resize(1, 2, 0)),
            ("_rjem_sdallocx", free(1)),
            ("tc_newarray_nothrow", allocate(1, 0)),
            ("mi_heap_calloc", allocate(2, 3)),
            ("_Znam", allocate(1, 0)),
            ("_ZnwmSt11align_val_tRKSt9nothrow_t", allocate(1, 0)),
            ("_ZdaPvmSt11align_val_t", free(1)),
            ("posix_memalign", Function::new(Action::Store, 3, 0, 1)),
        ] {
            assert_eq!(standard.find(name), Some(expected), "{name}");
        }
        for name in ["mallocx_", "printf", "", "_Znw", "tc_mallocx"] {
            assert_eq!(standard.find(name), None, "{name}");
        }
        assert!(Allocators::none().is_empty());
    }

    #[test]
    fn the_users_word_counts_more() {
        let mut allocators = Allocators::standard();
        allocators.allocates("malloc", 3);
        allocators.frees("pool_free", 2);
        let found = allocators.find("malloc").unwrap();
        assert_eq!((found.size, found.by_user), (3, true));
        assert_eq!(allocators.find("pool_free").unwrap().block, 2);
    }

    #[test]
    fn plain_names_are_shown() {
        let mut names = ["__libc_malloc", "_Znwm", "malloc", "__malloc"];
        names.sort_by_key(|n| rank(n));
        assert_eq!(names, ["malloc", "_Znwm", "__malloc", "__libc_malloc"]);
    }
}
