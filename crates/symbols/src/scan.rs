//! The expressions of a source line that access memory.
//!
//! **Problem.** Debug information says which line an instruction comes from, not which expression.
//! To tell `xy[i][k]` from `xz[k][j]`, the line has to be read, in whatever language it is, without
//! its declarations, and with macros unexpanded.
//!
//! **Idea.** Operands look alike in C, C++ and Rust (`a[i].b->c`, `*p`) and simple enough in
//! Fortran (`a(i, j)%b`) to be found without a grammar of the rest: what is not an operand is an
//! operator or a keyword, and is passed over. Of each operand come all accesses it may stand for:
//! those of its subscripts, the pointers on its way, and itself. Whether `a[i]` reads a pointer `a`
//! first, only its type would tell; such prefixes are given as *partial*.
//!
//! **Invariant.** Any text is scanned in time and depth proportional to its length and bounded;
//! what is not understood is left out.
mod declared;
mod lex;

pub use declared::declared;

use lex::{Kind, Lines, Token};
use std::ops::Range;

/// How the source is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C, C++, Rust.
    C,
    Fortran,
    /// Fortran with meaning in columns.
    FixedFortran,
}

impl Language {
    /// By the name of the file.
    pub fn of(path: &str) -> Language {
        match path.rsplit('.').next() {
            Some("f90" | "F90" | "f95" | "F95" | "f03" | "F03" | "f08" | "F08") => Language::Fortran,
            Some("f" | "F" | "for" | "FOR" | "f77" | "F77" | "ftn") => Language::FixedFortran,
            _ => Language::C,
        }
    }

    fn is_fortran(self) -> bool {
        self != Language::C
    }
}

/// An operand, and what it does to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// As the source has it: `xz[k][j]`.
    pub text: String,
    /// With empty subscripts: `xz[][]`; `(*p).x` as `p->x`; Fortran in small letters.
    pub pattern: String,
    pub reads: bool,
    pub writes: bool,
    /// Through a subscript or a pointer.
    pub indirect: bool,
    /// A prefix of another operand, read only if it is a pointer.
    pub partial: bool,
    pub line: u32,
    /// From 1, in bytes.
    pub columns: Range<u32>,
    /// The constants that are added in subscripts, and the text with the others: `b[i-1][k]` is
    /// `b[i][k]` and [-1, 0].
    pub constants: Vec<i64>,
    pub skeleton: String,
}

/// The text of a source file.
pub struct Source<'t> {
    lines: Lines<'t>,
    language: Language,
}

impl<'t> Source<'t> {
    pub fn new(text: &'t str, language: Language) -> Source<'t> {
        let lines = Lines::new(text);
        Source { lines, language }
    }

    /// The operands of the statement around a line (counted from 1), in the order in which they are
    /// evaluated.
    pub fn expressions(&self, line: u32) -> Vec<Expression> {
        let Some(range) = lex::statement(&self.lines, line, self.language) else {
            return Vec::new();
        };
        let mut scanner = Scanner {
            source: self.lines.source,
            tokens: lex::tokens(&self.lines, range, self.language),
            at: 0,
            depth: 0,
            language: self.language,
            found: Vec::new(),
        };
        scanner.sequence(false);
        scanner.found
    }
}

const C_KEYWORDS: &str = "\
    alignof as auto bool break case char class const continue crate default delete do double else enum \
    extern float fn for goto if impl in inline int let long loop match move mut namespace new pub ref \
    register restrict return short signed static struct switch template throw typedef typename union \
    unsafe unsigned use using void volatile where while";
const FORTRAN_KEYWORDS: &str = "\
    allocatable allocate backspace case character close complex contains continue cycle deallocate \
    dimension do double else elseif end enddo endif exit forall format function goto if implicit integer \
    intent logical module none open parameter precision print program read real return rewind save \
    select stop subroutine then use where while write";

/// An operand on its way.
#[derive(Clone)]
struct Chain {
    start: usize,
    end: usize,
    line: u32,
    column: u32,
    pattern: String,
    skeleton: String,
    constants: Vec<i64>,
    indirect: bool,
    /// The value of a call, a literal, a sum: not in memory, as far as is known.
    value: bool,
    /// Where it begins and ends without the parentheses around all of it.
    bare: Option<(usize, usize)>,
}

struct Scanner<'t> {
    source: &'t str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    language: Language,
    found: Vec<Expression>,
}

impl<'t> Scanner<'t> {
    fn text(&self, token: &Token) -> &'t str {
        self.source.get(token.start..token.end).unwrap_or_default()
    }

    fn peek(&self, ahead: usize) -> &'t str {
        self.tokens.get(self.at + ahead).map_or("", |token| self.text(token))
    }

    fn kind(&self, ahead: usize) -> Option<Kind> {
        self.tokens.get(self.at + ahead).map(|token| token.kind)
    }

    /// Where the last token that was passed ends.
    fn end(&self) -> usize {
        let last = self.at.checked_sub(1).and_then(|last| self.tokens.get(last));
        last.map_or(self.source.len(), |token| token.end)
    }

    /// `let x: T = …`: what is between the name and the assignment is passed over.
    fn skip_annotation(&mut self) {
        let first = self.tokens.first().map_or("", |token| self.text(token));
        if self.peek(0) == ":" && first == "let" {
            while !matches!(self.peek(0), "=" | "") {
                self.at += 1;
            }
        }
    }

    fn is_keyword(&self, word: &str) -> bool {
        let (word, all) = match self.language.is_fortran() {
            true => (&*word.to_ascii_lowercase(), FORTRAN_KEYWORDS),
            false => (word, C_KEYWORDS),
        };
        all.split(' ').any(|keyword| keyword == word)
    }

    /// Operands and operators up to the bracket that closes this sequence, or to the end.
    fn sequence(&mut self, nested: bool) {
        const DEEPEST: usize = 64;
        // Writes happen when everything to their right is done.
        let mut writes: Vec<Expression> = Vec::new();
        let mut after_value = false;
        self.depth += 1;
        while let Some(kind) = self.kind(0) {
            let word = self.peek(0);
            let operand = match (kind, word) {
                (Kind::Mark, ")" | "]" | "}") if nested => break,
                (Kind::Mark, "(") => true,
                (Kind::Mark, "*" | "&" | "&&" | "++" | "--") => !after_value && !self.language.is_fortran(),
                (Kind::Mark, "[") if self.depth < DEEPEST => {
                    self.bracketed();
                    after_value = true;
                    continue;
                }
                (Kind::Mark, _) => false,
                (Kind::Word, _) => !self.passes_word(word),
                (Kind::Number | Kind::Text, _) => {
                    self.at += 1;
                    after_value = true;
                    continue;
                }
            };
            if operand && self.depth < DEEPEST {
                let before = self.at;
                writes.extend(self.operand());
                after_value = true;
                if self.at > before {
                    continue;
                }
            }
            if matches!(word, "," | ";") {
                self.found.append(&mut writes);
            }
            after_value = word == ")";
            self.at += 1;
        }
        self.found.append(&mut writes);
        self.depth -= 1;
    }

    /// A word that is no operand. What follows `sizeof` is not evaluated.
    fn passes_word(&mut self, word: &str) -> bool {
        let fortran = self.language.is_fortran();
        if !fortran && matches!(word, "sizeof" | "decltype" | "typeof") && self.peek(1) == "(" {
            let found = self.found.len();
            self.at += 1;
            self.bracketed();
            self.found.truncate(found);
            // The caller steps over one more token: the closing bracket.
            self.at = self.at.saturating_sub(1);
            return true;
        }
        // A procedure; a type.
        let before_name = ["call", "subroutine", "function", "program", "module"];
        let named = fortran && before_name.iter().any(|w| word.eq_ignore_ascii_case(w));
        if named || (!fortran && word == "as") {
            self.at += 1;
            return true;
        }
        self.is_keyword(word)
    }

    /// What is between brackets; the position is behind them then.
    fn bracketed(&mut self) -> Range<usize> {
        self.at += 1;
        let from = self.at;
        self.sequence(true);
        let range = from..self.at;
        self.at = (self.at + 1).min(self.tokens.len());
        range
    }

    /// `(double *)`, before an operand.
    fn is_cast(&self) -> bool {
        if self.peek(0) != "(" || self.language.is_fortran() {
            return false;
        }
        let mut ahead = 1;
        let mut named = false;
        loop {
            match (self.kind(ahead), self.peek(ahead)) {
                (Some(Kind::Word), word) => {
                    named |= self.is_keyword(word) || matches!(self.peek(ahead + 1), ")" | "*" | "::")
                }
                (Some(Kind::Mark), "*" | "&" | "::") => {}
                (Some(Kind::Mark), ")") => break,
                _ => return false,
            }
            ahead += 1;
        }
        let next = self.kind(ahead + 1);
        named && (matches!(next, Some(Kind::Word | Kind::Number)) || self.peek(ahead + 1) == "(")
    }

    fn skip_cast(&mut self) {
        while !matches!(self.peek(0), ")" | "") {
            self.at += 1;
        }
        self.at += 1;
    }

    /// One operand with its prefixes. Gives the write that it makes when the rest has been
    /// evaluated.
    fn operand(&mut self) -> Option<Expression> {
        let mut prefixes: Vec<(&str, Token)> = Vec::new();
        loop {
            let token = self.tokens.get(self.at)?.clone();
            match self.text(&token) {
                "(" if self.is_cast() => {
                    self.skip_cast();
                    continue;
                }
                mark @ ("*" | "&" | "&&" | "++" | "--" | "-" | "+" | "!" | "~") => prefixes.push((mark, token)),
                "mut" | "const" | "raw" if !prefixes.is_empty() => {}
                _ => break,
            }
            self.at += 1;
        }
        let mut chain = self.primary()?;
        let stepped = self.postfixes(&mut chain);
        let mut written = stepped;
        for (mark, token) in prefixes.iter().rev() {
            match *mark {
                "*" => {
                    self.emit(&chain, true, stepped && !chain.value, false);
                    chain.pattern.insert(0, '*');
                    chain.skeleton.insert(0, '*');
                    (chain.start, chain.line, chain.column) = (token.start, token.line, token.column);
                    (chain.indirect, chain.value, written) = (true, false, false);
                    chain.end = self.end();
                    chain.bare = None;
                }
                "&" | "&&" => chain.value = true,
                "++" | "--" => written = true,
                _ => {}
            }
        }
        self.finish(&chain, written)
    }

    /// Emits what an operand reads; gives back what it writes.
    fn finish(&mut self, chain: &Chain, written: bool) -> Option<Expression> {
        self.skip_annotation();
        let next = self.peek(0);
        let assigned = next == "=" || (next == "=>" && self.language.is_fortran());
        let updated =
            next.len() > 1 && next.ends_with('=') && !matches!(next, "==" | "!=" | "<=" | ">=" | "..=" | "/=");
        let updated = updated || (next == "/=" && !self.language.is_fortran());
        if written {
            self.emit(chain, true, true, false);
            return None;
        }
        if !assigned {
            self.emit(chain, true, false, false);
        }
        if (!assigned && !updated) || chain.value {
            return None;
        }
        Some(self.expression(chain, false, true, false))
    }

    fn primary(&mut self) -> Option<Chain> {
        let token = self.tokens.get(self.at)?.clone();
        let mut chain = Chain {
            start: token.start,
            end: token.end,
            line: token.line,
            column: token.column,
            pattern: String::new(),
            skeleton: String::new(),
            constants: Vec::new(),
            indirect: false,
            value: true,
            bare: None,
        };
        match (token.kind, self.text(&token)) {
            (Kind::Word, word) if !self.is_keyword(word) => {
                self.at += 1;
                while self.peek(0) == "::" && self.kind(1) == Some(Kind::Word) && !self.language.is_fortran() {
                    self.at += 2;
                }
                let last = &self.tokens[self.at - 1];
                chain.end = last.end;
                // Without what qualifies it: that may be left out anyway.
                chain.pattern = match self.language.is_fortran() {
                    true => word.to_ascii_lowercase(),
                    false => self.text(last).to_string(),
                };
                chain.skeleton = chain.pattern.clone();
                chain.value = false;
            }
            (Kind::Mark, "(") => {
                let found = self.found.len();
                self.bracketed();
                chain.end = self.end();
                chain.bare = None;
                // A lone operand in parentheses is that operand.
                let whole = self
                    .found
                    .last()
                    .filter(|e| self.found.len() > found && e.reads && !e.writes && self.covers(e, &chain));
                if let Some(inner) = whole.cloned() {
                    self.found.pop();
                    (chain.pattern, chain.skeleton, chain.constants) = (inner.pattern, inner.skeleton, inner.constants);
                    (chain.indirect, chain.value) = (inner.indirect, false);
                    chain.bare = Some((chain.start + 1, chain.end - 1));
                }
            }
            (Kind::Number | Kind::Text, _) => self.at += 1,
            _ => return None,
        }
        Some(chain)
    }

    /// Is an expression all that is between the parentheses of a chain?
    fn covers(&self, expression: &Expression, chain: &Chain) -> bool {
        let inside = self
            .source
            .get(chain.start + 1..chain.end.saturating_sub(1))
            .unwrap_or_default();
        squeeze(inside.trim()) == expression.text
    }

    /// Subscripts, members, calls, steps. True if the operand is stepped (`i++`).
    fn postfixes(&mut self, chain: &mut Chain) -> bool {
        let fortran = self.language.is_fortran();
        loop {
            match self.peek(0) {
                "[" if !fortran => {
                    self.emit(chain, true, false, true);
                    self.subscript(chain, "[", "]");
                }
                "(" if fortran && !chain.value => {
                    self.emit(chain, true, false, true);
                    self.subscript(chain, "(", ")");
                }
                "(" if !fortran => {
                    self.bracketed();
                    (chain.value, chain.indirect) = (true, false);
                    chain.pattern += "()";
                    chain.skeleton += "()";
                }
                "." | "->" if !fortran && matches!(self.kind(1), Some(Kind::Word | Kind::Number)) => {
                    let arrow = self.peek(0) == "->";
                    let call = self.peek(2) == "(" || (self.peek(2) == "::" && self.peek(3) == "<");
                    if arrow || call {
                        // A method may do anything to what it is called on.
                        self.emit(chain, true, call && !arrow, !arrow && !call);
                    }
                    self.member(chain, arrow);
                }
                "%" if fortran && self.kind(1) == Some(Kind::Word) => self.member(chain, false),
                "++" | "--" if !fortran => {
                    self.at += 1;
                    return true;
                }
                "?" if !fortran && matches!(self.peek(1), "." | ";" | ")") => self.at += 1,
                _ => return false,
            }
            chain.end = self.end();
            chain.bare = None;
        }
    }

    fn member(&mut self, chain: &mut Chain, arrow: bool) {
        let name = match self.language.is_fortran() {
            true => self.peek(1).to_ascii_lowercase(),
            false => self.peek(1).to_string(),
        };
        // `(*p).x` is `p->x`.
        let through = chain.pattern.starts_with('*');
        if through {
            chain.pattern.remove(0);
            chain.skeleton.remove(0);
        }
        let mark = if arrow || through { "->" } else { "." };
        for text in [&mut chain.pattern, &mut chain.skeleton] {
            text.push_str(mark);
            text.push_str(&name);
        }
        chain.indirect |= arrow || through;
        chain.value = false;
        self.at += 2;
    }

    fn subscript(&mut self, chain: &mut Chain, open: &str, close: &str) {
        let inside = self.bracketed();
        let mut patterns = Vec::new();
        let mut skeletons = Vec::new();
        for index in split(&self.tokens, inside, self.source) {
            let (skeleton, constant) = linear(&self.tokens, index, self.source);
            chain.constants.push(constant);
            skeletons.push(skeleton);
            patterns.push("");
        }
        chain.pattern += &format!("{open}{}{close}", patterns.join(","));
        chain.skeleton += &format!("{open}{}{close}", skeletons.join(","));
        (chain.indirect, chain.value) = (true, false);
    }

    fn expression(&self, chain: &Chain, reads: bool, writes: bool, partial: bool) -> Expression {
        let (start, end) = chain.bare.unwrap_or((chain.start, chain.end));
        let text = squeeze(self.source.get(start..end).unwrap_or_default());
        Expression {
            text,
            pattern: chain.pattern.clone(),
            reads,
            writes,
            indirect: chain.indirect,
            partial,
            line: chain.line,
            columns: chain.column..chain.column + (chain.end - chain.start) as u32,
            constants: chain.constants.clone(),
            skeleton: chain.skeleton.clone(),
        }
    }

    fn emit(&mut self, chain: &Chain, reads: bool, writes: bool, partial: bool) {
        if !chain.value && !chain.pattern.is_empty() {
            let expression = self.expression(chain, reads, writes, partial);
            self.found.push(expression);
        }
    }
}

/// Runs of white space become one blank, and continuation marks vanish.
fn squeeze(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "&").collect();
    words.join(" ")
}

/// The parts of a range of tokens between commas that are in no brackets.
fn split(tokens: &[Token], range: Range<usize>, source: &str) -> Vec<Range<usize>> {
    let (mut parts, mut start, mut depth) = (Vec::new(), range.start, 0);
    for at in range.clone() {
        match source.get(tokens[at].start..tokens[at].end).unwrap_or_default() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => {
                parts.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(start..range.end);
    parts
}

/// A subscript as a text and an added constant: `i - 1` is (`i`, -1).
fn linear(tokens: &[Token], range: Range<usize>, source: &str) -> (String, i64) {
    let (mut skeleton, mut constant, mut depth) = (String::new(), 0i64, 0);
    let text = |at: usize| source.get(tokens[at].start..tokens[at].end).unwrap_or_default();
    let ends = |at: usize| at >= range.end || matches!(text(at), "+" | "-");
    let mut at = range.start;
    while at < range.end {
        let word = text(at);
        let sign = match word {
            "+" => Some(1),
            "-" => Some(-1),
            _ => None,
        };
        let lone = depth == 0 && sign.is_some() && at + 1 < range.end && ends(at + 2);
        if let (true, Some(sign), Some(Ok(value))) =
            (lone, sign, tokens.get(at + 1).map(|_| text(at + 1).parse::<i64>()))
        {
            constant = constant.wrapping_add(sign * value);
            at += 2;
            continue;
        }
        if let (true, Ok(value)) = (depth == 0 && at == range.start && ends(at + 1), word.parse::<i64>()) {
            constant = constant.wrapping_add(value);
            at += 1;
            continue;
        }
        match word {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            _ => {}
        }
        // `1 + i`: the sign that joined them goes with the constant.
        if !(skeleton.is_empty() && word == "+") {
            skeleton += word;
        }
        at += 1;
    }
    (skeleton, constant)
}

#[cfg(test)]
mod tests;
