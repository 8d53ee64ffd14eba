#include <atomic>

#include "index/activity.hpp"

#include "index/stamp.hpp"
#include "index/tree.hpp"

namespace steady
{
namespace
{
struct Kept
{
    uint64 run;
    Activity activity;
};

// nullptr where there is no room, as only on a damaged page.
Kept *kept(Page page)
{
    Size at = MAXALIGN(header(page)->pd_lower);
    return at + sizeof(Kept) <= header(page)->pd_upper ? reinterpret_cast<Kept *>(page + at) : nullptr;
}

// Others add at the same time.
void add(uint64 &sum, uint64 count)
{
    if (count > 0)
        std::atomic_ref(sum).fetch_add(count, std::memory_order_relaxed);
}

void add_to_meta_page(Relation rel, const Activity &a)
{
    Buffer buf = pin_page(rel, kMetaBlock);
    LockBuffer(buf, BUFFER_LOCK_SHARE);
    Page page = page_of(buf);
    Kept *k = page_fault(page, kMetaBlock) == nullptr ? kept(page) : nullptr;
    if (k != nullptr && k->run != current_run)
    {
        LockBuffer(buf, BUFFER_LOCK_UNLOCK);
        LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
        if (k->run != current_run)
            *k = {current_run, {}};
    }
    if (k != nullptr)
    {
        add(k->activity.skipped_entries, a.skipped_entries);
        add(k->activity.skipped_pages, a.skipped_pages);
        add(k->activity.skipped_subtrees, a.skipped_subtrees);
        add(k->activity.removed_entries, a.removed_entries);
        add(k->activity.unlinked_pages, a.unlinked_pages);
        // Or the counts would be lost whenever the page is not used for a while. A standby doesn't write its pages.
        if (!RecoveryInProgress())
            MarkBufferDirtyHint(buf, true);
    }
    UnlockReleaseBuffer(buf);
}
}  // namespace

void publish_activity(const Tree &tree)
{
    Activity &a = tree.activity;
    if ((a.skipped_entries | a.skipped_pages | a.skipped_subtrees | a.removed_entries | a.unlinked_pages) == 0)
        return;
    if (current_run != 0)
        add_to_meta_page(tree.rel, a);
    a = {};
}

Activity activity_of(Page meta_page)
{
    const Kept *k = kept(meta_page);
    return k != nullptr && k->run == current_run && current_run != 0 ? k->activity : Activity{};
}
}  // namespace steady
