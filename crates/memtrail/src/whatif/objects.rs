//! Objects by the names that tables give them, and what their elements are made of.
use super::args::{FieldSpec, PadSpec};
use crate::tables::names::Code;
use crate::tables::objects::{asking_code, assigned, busy_calls, named};
use crate::tables::run::Measured;
use anyhow::{bail, Context};
use memtrail_analyze::objects::Common;
use memtrail_symbols::{Shape, Type};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// The objects of a run, by name.
pub struct Objects<'m> {
    measured: &'m Measured,
    /// By group: what it is called.
    names: BTreeMap<u32, String>,
}

/// The size of an element, and its fields with their names.
pub type Elements = (u64, Vec<(String, Range<u64>)>);

/// A name without the place of the allocation.
fn short(name: &str) -> &str {
    name.split(" (").next().unwrap_or(name)
}

impl<'m> Objects<'m> {
    pub fn new(measured: &'m Measured) -> Objects<'m> {
        let busy = busy_calls(measured);
        let used: std::collections::BTreeSet<u32> = measured.keys.iter().map(|key| key.group).collect();
        let groups = (0..measured.groups.len() as u32).filter(|group| used.contains(group));
        let names = groups.map(|group| (group, named(measured, group, &busy).name));
        Objects {
            measured,
            names: names.collect(),
        }
    }

    pub fn name(&self, group: u32) -> &str {
        self.names.get(&group).map_or("[unknown]", String::as_str)
    }

    /// The groups of this name, whole or without where they were allocated.
    pub fn called(&self, text: &str) -> anyhow::Result<Vec<u32>> {
        let found: Vec<u32> = self
            .names
            .iter()
            .filter(|(_, name)| *name == text || short(name) == text)
            .map(|(&group, _)| group)
            .collect();
        if found.is_empty() {
            bail!("there is no object {text} that was accessed; memtrail objects FILE names them");
        }
        Ok(found)
    }

    /// The type of an object: that of the variable, or what the pointer points to that a block was
    /// assigned to.
    pub fn ty(&self, group: u32) -> Option<Rc<Type>> {
        if let Some(variable) = self.measured.statics.variables.get(&group) {
            return variable.ty.clone();
        }
        let (Common::Block { node } | Common::Anonymous { node }) = self.measured.groups.get(group as usize)?.common
        else {
            return None;
        };
        let code = asking_code(self.measured, node)?;
        let variable = assigned(self.measured, &code)?;
        self.pointed_to(&code, &variable)
    }

    fn pointed_to(&self, code: &Code, variable: &str) -> Option<Rc<Type>> {
        let module = self.measured.names.module_of(code.code)?;
        let pc = module.to_vaddr(code.place.as_ref()?.1)?;
        let local = module.locals_at(pc).into_iter().find(|local| local.name == variable);
        let statics = || {
            module
                .variables()
                .iter()
                .find(|other| other.name == variable)?
                .ty
                .clone()
        };
        let ty = local.and_then(|local| local.ty).or_else(statics)?;
        match ty.shape {
            Shape::Pointer(pointee) => module.pointee(pointee),
            _ => None,
        }
    }

    /// The length of a row: an array's last dimension but the first, or a pointed-to array.
    pub fn row(&self, group: u32) -> Option<u64> {
        let ty = self.ty(group)?;
        let Shape::Array {
            element,
            dims,
            column_major,
            ..
        } = &ty.shape
        else {
            return None;
        };
        if dims.len() < 2 {
            // An array of arrays.
            return matches!(element.shape, Shape::Array { .. }).then_some(element.size?);
        }
        let fastest = if *column_major { dims.first() } else { dims.last() };
        Some(fastest?.count? * element.size?)
    }

    /// What to pad, and by rows of which length.
    pub fn pad(&self, spec: &PadSpec) -> anyhow::Result<Vec<(u32, Option<u64>)>> {
        let groups = self.called(&spec.name)?;
        Ok(groups
            .into_iter()
            .map(|group| (group, spec.row.or_else(|| self.row(group))))
            .collect())
    }

    /// The fields of an object's elements, with names; and the size of an element.
    pub fn fields(&self, group: u32) -> Option<Elements> {
        let ty = self.ty(group)?;
        let element = ty.element();
        let Shape::Struct(fields) = &element.shape else {
            return None;
        };
        let ranges = fields.iter().map(|f| (f.name.clone(), f.offset..f.offset + f.size));
        Some((element.size?, ranges.collect()))
    }

    /// The bytes of an element that fields are, and the size of an element.
    pub fn parts(&self, group: u32, spec: &FieldSpec) -> anyhow::Result<(u64, Vec<Range<u64>>)> {
        let known = self.fields(group);
        let element = spec
            .element
            .or(known.as_ref().map(|(element, _)| *element))
            .with_context(|| {
                let name = self.name(group);
                format!("{name}: its type is not known; give bytes and the size of an element: {name}:0-8,16-24/BYTES")
            })?;
        let fields = known.map(|(_, fields)| fields).unwrap_or_default();
        let part = |text: &String| {
            if let Some((_, range)) = fields.iter().find(|(name, _)| name == text) {
                return Ok(range.clone());
            }
            let bytes = text
                .split_once('-')
                .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
            bytes.with_context(|| {
                let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
                format!(
                    "{}: there is no field {text}; there are {}",
                    self.name(group),
                    names.join(", ")
                )
            })
        };
        let parts = spec.fields.iter().map(part).collect::<anyhow::Result<_>>()?;
        Ok((element, parts))
    }
}
