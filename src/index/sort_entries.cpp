#include "index/sort_entries.hpp"

#include "index/insert.hpp"

namespace steady
{
namespace
{
// While an entry is sorted, this bit says that its row is dead: posting lists don't come here.
constexpr uint16 kDead = kPosting;

constexpr Size kFirstChunk = 64 * 1024;
constexpr Size kLargestChunk = 8 * 1024 * 1024;
static_assert(RunReader::kLeast > 2 * INDEX_SIZE_MASK);
}  // namespace

struct EntryRecords::Chunk
{
    Chunk *next;
    Size size, used;
    char *data()
    {
        return reinterpret_cast<char *>(this) + MAXALIGN(sizeof(Chunk));
    }
};

void EntryRecords::begin(const KeySchema &schema, Relation heap, Relation index, MemoryContext context, Size memory)
{
    schema_ = &schema;
    heap_ = heap;
    index_ = index;
    context_ = context;
    memory_ = memory;
    first_ = current_ = nullptr;
    used_ = count_ = 0;
    items_sort_ = ItemSort::make(schema, index, context);
    items_ = nullptr;
}

EntryRecords::Chunk *EntryRecords::add_chunk(Size least)
{
    Size size = std::clamp(used_, kFirstChunk, std::min(kLargestChunk, std::max(kFirstChunk, memory_ / 8)));
    size = std::max(size, least);
    auto *chunk = static_cast<Chunk *>(MemoryContextAllocHuge(context_, MAXALIGN(sizeof(Chunk)) + size));
    Chunk **link = current_ != nullptr ? &current_->next : &first_;
    *chunk = {*link, size, 0};
    return *link = chunk;
}

bool EntryRecords::put(const Datum *values, const bool *nulls, const ItemPointerData &tid, bool alive)
{
    Entry entry = index_form_tuple(schema_->desc, const_cast<Datum *>(values), const_cast<bool *>(nulls));
    entry->t_tid = tid;
    check_entry_size(index_, heap_, entry);
    Size size = entry_size(entry);
    bool room = count_ == 0 || used_ + size + (count_ + 1) * 2 * sizeof(Item) <= memory_;
    if (room)
    {
        Chunk *chunk = current_;
        if (chunk == nullptr || chunk->size - chunk->used < size)
        {
            chunk = chunk != nullptr ? chunk->next : nullptr;  // left from an earlier run
            if (chunk == nullptr || chunk->size < size)
                chunk = add_chunk(size);
            current_ = chunk;
        }
        auto copy = reinterpret_cast<Entry>(chunk->data() + chunk->used);
        memcpy(copy, entry, size);
        if (!alive)
            copy->t_info |= kDead;
        chunk->used += size;
        used_ += size;
        count_++;
    }
    pfree(entry);
    return room;
}

void EntryRecords::sort()
{
    items_ = static_cast<Item *>(MemoryContextAllocHuge(context_, count_ * sizeof(Item)));
    auto *scratch = static_cast<Item *>(MemoryContextAllocHuge(context_, count_ * sizeof(Item)));
    Item *to = items_;
    for (Chunk *chunk = first_; chunk != nullptr; chunk = chunk->next)
        for (Size at = 0; at < chunk->used; to++)
        {
            to->entry = reinterpret_cast<Entry>(chunk->data() + at);
            at += entry_size(to->entry);
        }
    Assert(to == items_ + count_);
    items_sort_->sort(items_, scratch, count_);
    pfree(scratch);
    next_ = 0;
}

// Entries lie in the order in which they came, so that going through them in key order waits for memory.
inline void EntryRecords::prefetch(Size at) const
{
    constexpr Size kAhead = 32;
    if (at + kAhead < count_)
        __builtin_prefetch(items_[at + kAhead].entry);
}

EntryRecords::Row EntryRecords::row(Entry entry)
{
    bool dead = (entry->t_info & kDead) != 0;
    if (unlikely(dead))
        entry->t_info &= ~kDead;
    return {entry, !dead};
}

bool EntryRecords::next(Row *to)
{
    if (next_ == count_)
        return false;
    prefetch(next_);
    *to = row(items_[next_++].entry);
    return true;
}

void EntryRecords::write(RunFiles *runs)
{
    for (Size i = 0; i < count_; i++)
    {
        prefetch(i);
        runs->write(items_[i].entry, entry_size(items_[i].entry));
    }
}

void EntryRecords::clear()
{
    if (items_ != nullptr)
        pfree(items_);
    items_ = nullptr;
    for (Chunk *chunk = first_; chunk != nullptr; chunk = chunk->next)
        chunk->used = 0;
    current_ = first_;
    used_ = count_ = 0;
}

void EntryRecords::release()
{
    clear();
    for (Chunk *chunk = first_, *next; chunk != nullptr; chunk = next)
    {
        next = chunk->next;
        pfree(chunk);
    }
    first_ = current_ = nullptr;
}

void EntryRecords::read(const char *at, Head *head) const
{
    head->entry = reinterpret_cast<Entry>(const_cast<char *>(at));
    head->key = index_getattr(head->entry, 1, schema_->desc, &head->null);
}

bool EntryRecords::before(const Head &a, const Head &b) const
{
    int order = compare_values(*schema_, 0, a.key, a.null, b.key, b.null);
    return (order != 0 ? order : compare_entries(*schema_, a.entry, b.entry, 1)) < 0;
}
}  // namespace steady
