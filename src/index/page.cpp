#include "index/page.hpp"

#include "index/word.hpp"

namespace steady
{
void init_page(Page page, PageKind kind, uint16 level)
{
    PageInit(page, BLCKSZ, sizeof(PageTail));
    *tail(page) = {kMagic, kFormat, kind, level, InvalidBlockNumber, InvalidBlockNumber, 0, 0, 0, 0};
}

void set_deleted(Page page, FullTransactionId safe_xid)
{
    PageTail *t = tail(page);
    t->flags = kDeleted;
    t->low = t->high = t->waste = 0;
    memcpy(page + kContents, &safe_xid, sizeof safe_xid);
    header(page)->pd_lower = kContents + sizeof safe_xid;
    header(page)->pd_upper = header(page)->pd_special;
}

FullTransactionId deleted_safe_xid(Page page)
{
    FullTransactionId xid;
    memcpy(&xid, page + kContents, sizeof xid);
    return xid;
}

static bool fence_ok(Page page, uint16 offset)
{
    return offset == 0 || (offset >= header(page)->pd_upper && offset + sizeof(IndexTupleData) <= kTailAt &&
                           offset == MAXALIGN(offset));
}

const char *page_fault(Page page, BlockNumber block)
{
    PageHeader h = header(page);
    PageTail *t = tail(page);

    if (PageIsNew(page))
        return "page is all zeroes";
    if (PageGetPageSize(page) != BLCKSZ || h->pd_special != kTailAt || h->pd_lower < kContents ||
        h->pd_lower > h->pd_upper || h->pd_upper > h->pd_special)
        return "page header is damaged";
    if (t->magic != kMagic)
        return "page is not one of a steady index";
    if (t->format != kFormat)
        return "page has a format version that this library does not know";
    if ((block == kMetaBlock) != (t->kind == PageKind::meta))
        return block == kMetaBlock ? "first page is not the meta page" : "meta page in the wrong place";
    if (t->kind != PageKind::meta && t->kind != PageKind::tuple && t->kind != PageKind::word)
        return "page has an unknown kind";
    if (t->level >= kMaxLevels || t->left == block || t->right == block)
        return "page has an impossible level or link";
    if (!fence_ok(page, t->low) || !fence_ok(page, t->high))
        return "fence lies outside the page";
    if (t->kind != PageKind::meta && (t->flags & kDeleted) == 0 && (t->high == 0) != (t->right == InvalidBlockNumber))
        return "high key and right link disagree";
    if ((t->flags & kAppending) != 0 && (t->level != 0 || t->right != InvalidBlockNumber))
        return "page that is not the last leaf has reserved slots";
    if ((t->flags & kHasPostings) != 0 && t->level != 0)
        return "inner page is marked as one with posting lists";
    if ((t->flags & kDeleted) != 0 && (t->flags != kDeleted || t->low != 0 || t->high != 0 || t->waste != 0 ||
                                       h->pd_lower != kContents + sizeof(FullTransactionId) || h->pd_upper != kTailAt))
        return "unlinked page is not as unlinking leaves it";
    if (t->kind == PageKind::meta &&
        (meta(page)->magic != kMagic || meta(page)->format != kFormat || meta(page)->level >= kMaxLevels))
        return "meta page is damaged";
    if (t->kind == PageKind::word && (t->flags & kDeleted) == 0)
        return t->level == 0 ? WordCodec::frame_fault(page) : "inner page is of a leaf's kind";
    return nullptr;
}
}  // namespace steady
