//! A block at another load address.
//!
//! **Problem.** A plan has addresses in it: where its code stands, and constants that instructions
//! relative to the instruction pointer come to. The same block of another process, whose modules are
//! loaded elsewhere, has another plan.
//!
//! **Idea.** The pieces of code move with their images. A constant moves with the first of the
//! block's images whose base is less than 2^31 away from it: that is as far as such an instruction
//! reaches, and no constant that is a distance or a number is anywhere near a load address. Whether
//! that is so is not believed: who stores a block as another one moved has compared them first.
use crate::images::{ImageId, Images};
use crate::{DecodeError, Definition};

/// How far from its base an image may have constants.
const REACH: u64 = 1 << 31;

impl Definition {
    /// The block in other images: `to` gives the image that takes an image's place, `None` if none
    /// does; then there is no such block.
    pub fn relocated(
        &self,
        images: &Images,
        to: impl Fn(ImageId) -> Option<ImageId>,
    ) -> Result<Option<Definition>, DecodeError> {
        let mut block = self.clone();
        let mut moves = Vec::with_capacity(self.images.len());
        for image in &mut block.images {
            let Some(new) = to(*image) else { return Ok(None) };
            let (from, there) = (images.get(*image)?, images.get(new)?);
            moves.push(from.zip(there).map(|(f, t)| (f.base, t.base.wrapping_sub(f.base))));
            *image = new;
        }
        let distance = |piece: usize| moves.get(piece).copied().flatten().map_or(0, |m| m.1);
        let plan = &mut block.plan;
        plan.pc = plan.pc.wrapping_add(distance(0));
        for (i, piece) in plan.pieces.iter_mut().enumerate() {
            piece.pc = piece.pc.wrapping_add(distance(1 + i));
        }
        plan.each_constant(&mut |c| {
            let near = |&&(base, _): &&(u64, u64)| (*c).wrapping_sub(base).wrapping_add(REACH) < 2 * REACH;
            if let Some((_, distance)) = moves.iter().flatten().find(near) {
                *c = c.wrapping_add(*distance);
            }
        });
        Ok(Some(block))
    }
}
