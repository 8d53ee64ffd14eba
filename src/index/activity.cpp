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
    uint64 pages_accounted;
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

// Calls change(kept) for what the meta page has of this run. Others may do so at the same time.
template <class Change>
void change_kept(Relation rel, Change change)
{
    if (current_run == 0)
        return;
    Buffer buf = pin_page(rel, kMetaBlock);
    LockBuffer(buf, BUFFER_LOCK_SHARE);
    Page page = page_of(buf);
    Kept *k = page_fault(page, kMetaBlock) == nullptr ? kept(page) : nullptr;
    if (k != nullptr && k->run != current_run)
    {
        LockBuffer(buf, BUFFER_LOCK_UNLOCK);
        LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
        if (k->run != current_run)
            *k = {current_run, {}, 0};
    }
    if (k != nullptr)
    {
        change(k);
        // Or all would be lost whenever the page is not used for a while. A standby doesn't write its pages.
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
    change_kept(tree.rel, [&](Kept *k) {
        add(k->activity.skipped_entries, a.skipped_entries);
        add(k->activity.skipped_pages, a.skipped_pages);
        add(k->activity.skipped_subtrees, a.skipped_subtrees);
        add(k->activity.removed_entries, a.removed_entries);
        add(k->activity.unlinked_pages, a.unlinked_pages);
    });
    a = {};
}

void note_pages_accounted(Relation rel)
{
    change_kept(rel, [](Kept *k) { std::atomic_ref(k->pages_accounted).store(1, std::memory_order_relaxed); });
}

bool pages_accounted(Relation rel)
{
    Buffer buf = read_page(rel, kMetaBlock, Lock::share);
    const Kept *k = kept(page_of(buf));
    bool accounted = k != nullptr && current_run != 0 && k->run == current_run && k->pages_accounted != 0;
    UnlockReleaseBuffer(buf);
    return accounted;
}

Activity activity_of(Page meta_page)
{
    const Kept *k = kept(meta_page);
    return k != nullptr && k->run == current_run && current_run != 0 ? k->activity : Activity{};
}
}  // namespace steady
