// What every page of the index has, whatever codec stores its entries. No buffers and no locks here.
//
//   PageHeader | slots -> ... hole ... <- entries | PageTail
//
// The hole between pd_lower and pd_upper is not logged, not in full-page images and zeroed by redo; it holds the
// stamp zone (stamp.hpp) and nothing else, on the meta page counts (activity.hpp).
#pragma once

#include "pg/pg.hpp"

namespace steady
{
constexpr uint32 kMagic = 0x59445453;  // "STDY" in memory
constexpr uint8 kFormat = 1;           // version of everything on disk
constexpr BlockNumber kMetaBlock = 0;
constexpr int kMaxLevels = 32;  // a path from the root; more means a circle

// How a page stores its entries. Numbers are on disk.
enum class PageKind : uint8
{
    meta = 0,
    tuple = 1,
    word = 2,  // leaves only
    // 3: bytes
};

enum PageFlag : uint16
{
    kIncompleteSplit = 1 << 0,  // the right sibling has no downlink yet
    kDeleted = 1 << 1,          // unlinked; its right link still leads to the page that took over its keys
    kHasPostings = 1 << 2,      // a leaf on which an entry may have several TIDs
    kAppending = 1 << 3,        // on the last leaf: its last slots may be reserved, not yet filled (tuple codec)
    kLowUnknown = 1 << 4,       // the low fence was too large to be kept
};

// The special area of every page, the meta page's too.
struct PageTail
{
    uint32 magic;
    uint8 format;
    PageKind kind;
    uint16 level;       // 0: leaf
    BlockNumber left;   // InvalidBlockNumber: leftmost of its level
    BlockNumber right;  // InvalidBlockNumber: rightmost of its level
    uint16 flags;
    uint16 low;    // offset of the low fence's pivot: entries are >= it; 0: none (leftmost, or kLowUnknown)
    uint16 high;   // offset of the high key's pivot: entries are < it; 0: none (rightmost)
    uint16 waste;  // bytes above pd_upper that belong to no entry or fence any more
};
static_assert(sizeof(PageTail) == 24 && sizeof(PageTail) == MAXALIGN(sizeof(PageTail)));

// Contents of the meta page, behind the page header.
struct MetaData
{
    uint32 magic;
    uint32 format;
    BlockNumber root;         // InvalidBlockNumber: no entry was ever inserted
    uint16 level;             // the root's
    PageKind kind;            // of leaves; inner pages are tuple pages
    bool equal_is_identical;  // every key's opclass says so: duplicates may share a posting list
};

constexpr int kCacheLine = 64;  // of most processors; for prefetching only
constexpr uint16 kContents = MAXALIGN(SizeOfPageHeaderData);
constexpr uint16 kTailAt = BLCKSZ - sizeof(PageTail);

// Set bits, without an instruction that not every processor has, and the library's call in its place.
constexpr int count_bits(uint64 word)
{
    word -= word >> 1 & UINT64CONST(0x5555555555555555);
    word = (word & UINT64CONST(0x3333333333333333)) + (word >> 2 & UINT64CONST(0x3333333333333333));
    return static_cast<int>(
        ((word + (word >> 4)) & UINT64CONST(0x0f0f0f0f0f0f0f0f)) * UINT64CONST(0x0101010101010101) >> 56);
}

inline PageHeader header(Page page)
{
    return reinterpret_cast<PageHeader>(page);
}
inline PageTail *tail(Page page)
{
    return reinterpret_cast<PageTail *>(page + kTailAt);
}
inline MetaData *meta(Page page)
{
    return reinterpret_cast<MetaData *>(page + kContents);
}
inline bool is_leaf(Page page)
{
    return tail(page)->level == 0;
}
inline bool is_rightmost(Page page)
{
    return tail(page)->right == InvalidBlockNumber;
}
inline bool is_leftmost(Page page)
{
    return tail(page)->left == InvalidBlockNumber;
}
inline bool has_flag(Page page, PageFlag flag)
{
    return (tail(page)->flags & flag) != 0;
}
inline int hole(Page page)
{
    return header(page)->pd_upper - header(page)->pd_lower;
}

// An empty page of the given kind. The caller logs it as an image.
void init_page(Page page, PageKind kind, uint16 level);

// A deleted page keeps, in place of slots, the xid from which on nobody can follow a link to it any more.
void set_deleted(Page page, FullTransactionId safe_xid);
FullTransactionId deleted_safe_xid(Page page);

// What is wrong with the frame of a page that was read as block `block` of an index with `blocks` blocks: nullptr if
// nothing. Looks at header, tail and fence offsets, not at slots and entries (the codec's check does).
const char *page_fault(Page page, BlockNumber block);
}  // namespace steady
