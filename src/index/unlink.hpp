// Taking pages out of the tree.
#pragma once

#include "index/tree.hpp"

namespace steady
{
// Unlinks the empty leaf `block`, if it can be done: it is not the rightmost, nobody else has it pinned, and its parent
// has another child to the right of it. An inner page that has no other child is unlinked before, its child handed to
// the right. One atomic record each over left sibling, page, right sibling and parent. Nothing is locked by the caller,
// nor the leaf pinned. Returns how many pages were unlinked.
int unlink_page(const Tree &, BlockNumber block);
}  // namespace steady
