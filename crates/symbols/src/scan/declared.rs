//! Names that a line gives to what it makes, where it does not assign: a guess from its text.

/// The variable that a line declares or calls a function of:
/// `std::unique_ptr<long[]> owned(new long[64]);`, `numbers.reserve(1000);`,
/// `allocate(matrix(20, 30))`.
pub fn declared(line: &str) -> Option<String> {
    let line = line.trim();
    let small = line.to_ascii_lowercase();
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if let Some(rest) = small.strip_prefix("allocate").map(|rest| rest.trim_start()) {
        let inside = rest.strip_prefix('(')?.trim_start();
        let name: String = inside.chars().take_while(|&c| is_name(c) || c == '%').collect();
        return (!name.is_empty()).then_some(name);
    }
    let before = line.split('(').next()?;
    if before.len() == line.len() {
        return None;
    }
    if let Some((object, _)) = before.rsplit_once("->").or(before.rsplit_once('.')) {
        let name: String = object.chars().rev().take_while(|&c| is_name(c)).collect();
        let name: String = name.chars().rev().collect();
        return (!name.is_empty()).then_some(name);
    }
    // A declaration has a type and a name.
    let (ty, name) = before.rsplit_once(char::is_whitespace)?;
    let keyword = ["return", "new", "else", "throw", "delete", "="];
    let is_declaration =
        !name.is_empty() && name.chars().all(is_name) && !keyword.iter().any(|k| ty.trim().ends_with(k));
    is_declaration.then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_what_they_make() {
        let name = |line| declared(line).unwrap_or_default();
        assert_eq!(name("    std::unique_ptr<long[]> owned(new long[64]);"), "owned");
        assert_eq!(name("numbers.reserve(1000);"), "numbers");
        assert_eq!(name("    this->table->insert(7);"), "table");
        assert_eq!(name("  allocate(matrix(20, 30))"), "matrix");
        assert_eq!(name("  return make(3);"), "");
        assert_eq!(name("free(p);"), "");
        assert_eq!(name("x;"), "");
    }
}
