#include "index/sort.hpp"

#include "index/sort_items.hpp"

namespace steady
{
namespace
{
// While an entry is sorted, this bit says that its row is dead: posting lists don't come here.
constexpr uint16 kDead = kPosting;

constexpr Size kLeastMemory = 128 * 1024;
constexpr Size kFirstChunk = 64 * 1024;
constexpr Size kLargestChunk = 8 * 1024 * 1024;
// What is read of a run at once: more than the largest entry.
constexpr Size kLeastRead = 4 * BLCKSZ;
constexpr Size kLargestRead = 32 * BLCKSZ;
constexpr int kMostRunsAtOnce = 500;
constexpr int kLeastRunsAtOnce = 4;
static_assert(kLeastRead > 2 * INDEX_SIZE_MASK);

// Entries in memory, one behind the other in the order in which they came.
struct Chunk
{
    Chunk *next;
    Size size, used;
    char *data()
    {
        return reinterpret_cast<char *>(this) + MAXALIGN(sizeof(Chunk));
    }
};

// Entries in order in [start, end) of a file.
struct Run
{
    int32 file;
    int64 start, end;
};

struct Files
{
    int n, room;
    BufFile **file;
};
struct Runs
{
    int n, room;
    Run *run;
};

// A run that is being merged, at its first entry.
struct Source
{
    BufFile *file;
    int64 at, end;  // what was not yet read
    char *buffer;
    Size size, used, next;  // of the buffer; `next` is behind `entry`
    Entry entry;
    Datum key;  // first column's
    bool null;
};
}  // namespace

struct Sort
{
    const KeySchema *schema;
    MemoryContext context;
    Size memory;
    FileSet *shared;  // where a participant's file goes
    int participant;

    Chunk *first, *current;
    Size used, count;
    ItemSort *items_sort;
    Item *items;  // when all is sorted in memory
    Size next_item;

    Files files;
    int64 file_size;  // of the last file, which grows
    Runs runs;

    int sources;  // a heap, the smallest entry's first
    Source **source;
    bool taken;  // source[0] was handed out
};

static Sort *make_sort(const KeySchema &schema, Size memory)
{
    MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "steady sort", ALLOCSET_DEFAULT_SIZES);
    auto *sort = static_cast<Sort *>(MemoryContextAllocZero(context, sizeof(Sort)));
    sort->schema = &schema;
    sort->context = context;
    sort->memory = std::max(memory, kLeastMemory);
    return sort;
}

template <class List, class Element>
static void append(Sort *sort, List *list, Element *List::*array, Element element)
{
    if (list->n == list->room)
    {
        int room = std::max(2 * list->room, 8);
        auto *grown = static_cast<Element *>(MemoryContextAllocHuge(sort->context, room * sizeof(Element)));
        if (list->n > 0)
        {
            memcpy(grown, list->*array, list->n * sizeof(Element));
            pfree(list->*array);
        }
        list->*array = grown;
        list->room = room;
    }
    (list->*array)[list->n++] = element;
}

Sort *begin_sort(const KeySchema &schema, Relation index, Size memory, FileSet *files, int participant)
{
    Sort *sort = make_sort(schema, memory);
    sort->items_sort = ItemSort::make(schema, index, sort->context);
    sort->shared = files;
    sort->participant = participant;
    return sort;
}

void end_sort(Sort *sort)
{
    for (int i = 0; i < sort->files.n; i++)
        BufFileClose(sort->files.file[i]);
    MemoryContextDelete(sort->context);
}

// ---- in memory

static Chunk *add_chunk(Sort *sort, Size least)
{
    Size size = std::clamp(sort->used, kFirstChunk, std::min(kLargestChunk, std::max(kFirstChunk, sort->memory / 8)));
    size = std::max(size, least);
    auto *chunk = static_cast<Chunk *>(MemoryContextAllocHuge(sort->context, MAXALIGN(sizeof(Chunk)) + size));
    Chunk **link = sort->current != nullptr ? &sort->current->next : &sort->first;
    *chunk = {*link, size, 0};
    return *link = chunk;
}

// Items of all entries that are in memory, in order.
static Item *sort_in_memory(Sort *sort)
{
    auto *items = static_cast<Item *>(MemoryContextAllocHuge(sort->context, sort->count * sizeof(Item)));
    auto *scratch = static_cast<Item *>(MemoryContextAllocHuge(sort->context, sort->count * sizeof(Item)));
    Item *to = items;
    for (Chunk *chunk = sort->first; chunk != nullptr; chunk = chunk->next)
        for (Size at = 0; at < chunk->used; to++)
        {
            to->entry = reinterpret_cast<Entry>(chunk->data() + at);
            at += entry_size(to->entry);
        }
    Assert(to == items + sort->count);
    sort->items_sort->sort(items, scratch, sort->count);
    pfree(scratch);
    return items;
}

// Entries lie in the order in which they came, so that going through them in key order waits for memory.
static inline void prefetch_entry(const Sort *sort, const Item *items, Size at)
{
    constexpr Size kAhead = 32;
    if (at + kAhead < sort->count)
        __builtin_prefetch(items[at + kAhead].entry);
}

// ---- runs

static void create_file(Sort *sort)
{
    BufFile *file;
    if (sort->shared != nullptr)
    {
        char name[MAXPGPATH];
        snprintf(name, sizeof name, "runs.%d", sort->participant);
        file = BufFileCreateFileSet(sort->shared, name);
    }
    else
        file = BufFileCreateTemp(false);
    append(sort, &sort->files, &Files::file, file);
    sort->file_size = 0;
}

static void write_bytes(Sort *sort, const void *data, Size size)
{
    BufFileWrite(sort->files.file[sort->files.n - 1], const_cast<void *>(data), size);
    sort->file_size += size;
}

static void read_bytes(BufFile *file, int64 at, void *data, Size size)
{
    // The seek's file number is that of a segment: offsets beyond the first one go on to the next.
    if (BufFileSeek(file, 0, at, SEEK_SET) != 0)
        ereport(ERROR, (errcode_for_file_access(), errmsg("could not seek in temporary file: %m")));
    Size got = BufFileRead(file, data, size);
    if (got != size)
        ereport(ERROR, (errcode_for_file_access(),
                        errmsg("could not read from temporary file: read only %zu of %zu bytes", got, size)));
}

// Writes what is in memory as a run and forgets it.
static void spill(Sort *sort)
{
    MemoryContext old = MemoryContextSwitchTo(sort->context);
    if (sort->files.n == 0)
        create_file(sort);
    Run run = {sort->files.n - 1, sort->file_size, 0};
    Item *items = sort_in_memory(sort);
    for (Size i = 0; i < sort->count; i++)
    {
        prefetch_entry(sort, items, i);
        write_bytes(sort, items[i].entry, entry_size(items[i].entry));
    }
    run.end = sort->file_size;
    append(sort, &sort->runs, &Runs::run, run);
    pfree(items);
    for (Chunk *chunk = sort->first; chunk != nullptr; chunk = chunk->next)
        chunk->used = 0;
    sort->current = sort->first;
    sort->used = sort->count = 0;
    MemoryContextSwitchTo(old);
}

void put_entry(Sort *sort, Entry entry, bool alive)
{
    Size size = entry_size(entry);
    if (sort->count > 0 && sort->used + size + (sort->count + 1) * 2 * sizeof(Item) > sort->memory)
        spill(sort);
    Chunk *chunk = sort->current;
    if (chunk == nullptr || chunk->size - chunk->used < size)
    {
        chunk = chunk != nullptr ? chunk->next : nullptr;  // left from an earlier run
        if (chunk == nullptr || chunk->size < size)
            chunk = add_chunk(sort, size);
        sort->current = chunk;
    }
    auto copy = reinterpret_cast<Entry>(chunk->data() + chunk->used);
    memcpy(copy, entry, size);
    if (!alive)
        copy->t_info |= kDead;
    chunk->used += size;
    sort->used += size;
    sort->count++;
}

static void free_memory(Sort *sort)
{
    for (Chunk *chunk = sort->first, *next; chunk != nullptr; chunk = next)
    {
        next = chunk->next;
        pfree(chunk);
    }
    sort->first = sort->current = nullptr;
    sort->used = sort->count = 0;
}

// ---- merging

// Reads the source's next entry. False at its end.
static bool advance(const KeySchema &schema, Source *source)
{
    Size left = source->used - source->next;
    auto whole = [&] {
        return left >= sizeof(IndexTupleData) &&
               left >= entry_size(reinterpret_cast<Entry>(source->buffer + source->next));
    };
    if (!whole())
    {
        memmove(source->buffer, source->buffer + source->next, left);
        Size more = std::min<int64>(source->size - left, source->end - source->at);
        if (more > 0)
            read_bytes(source->file, source->at, source->buffer + left, more);
        source->at += more;
        source->used = left + more;
        source->next = 0;
        left = source->used;
        if (left == 0)
            return false;
        if (!whole())
            elog(ERROR, "temporary file of an index build ends in the middle of an entry");
    }
    source->entry = reinterpret_cast<Entry>(source->buffer + source->next);
    source->next += entry_size(source->entry);
    source->key = index_getattr(source->entry, 1, schema.desc, &source->null);
    return true;
}

static int compare_sources(const KeySchema &schema, const Source &a, const Source &b)
{
    int order = compare_values(schema, 0, a.key, a.null, b.key, b.null);
    return order != 0 ? order : compare_entries(schema, a.entry, b.entry, 1);
}

// Lets the source at `hole` sink to its place in the heap.
static void sink(Sort *sort, int hole)
{
    Source *source = sort->source[hole];
    for (;;)
    {
        int child = 2 * hole + 1;
        if (child >= sort->sources)
            break;
        if (child + 1 < sort->sources &&
            compare_sources(*sort->schema, *sort->source[child + 1], *sort->source[child]) < 0)
            child++;
        if (compare_sources(*sort->schema, *source, *sort->source[child]) <= 0)
            break;
        sort->source[hole] = sort->source[child];
        hole = child;
    }
    sort->source[hole] = source;
}

// Makes a heap of the first `n` runs.
static void begin_merge(Sort *sort, int n)
{
    Size size = std::clamp(sort->memory / std::max(n, 1), kLeastRead, kLargestRead) / BLCKSZ * BLCKSZ;
    sort->source = static_cast<Source **>(MemoryContextAlloc(sort->context, std::max(n, 1) * sizeof(Source *)));
    sort->sources = 0;
    sort->taken = false;
    for (int i = 0; i < n; i++)
    {
        const Run &run = sort->runs.run[i];
        auto *source = static_cast<Source *>(MemoryContextAllocZero(sort->context, sizeof(Source)));
        source->file = sort->files.file[run.file];
        source->at = run.start;
        source->end = run.end;
        source->size = size;
        source->buffer = static_cast<char *>(MemoryContextAlloc(sort->context, size));
        if (advance(*sort->schema, source))
            sort->source[sort->sources++] = source;
    }
    for (int i = sort->sources / 2 - 1; i >= 0; i--)
        sink(sort, i);
}

// The next entry of the merge, nullptr at its end.
static Entry next_merged(Sort *sort)
{
    CHECK_FOR_INTERRUPTS();
    if (sort->taken)
    {
        Source *source = sort->source[0];
        if (!advance(*sort->schema, source))
        {
            pfree(source->buffer);
            pfree(source);
            sort->source[0] = sort->source[--sort->sources];
        }
        if (sort->sources > 0)
            sink(sort, 0);
    }
    sort->taken = sort->sources > 0;
    return sort->taken ? sort->source[0]->entry : nullptr;
}

// Merges runs into longer ones, no more than needed, until one merge is enough for all.
static void reduce_runs(Sort *sort)
{
    int at_once = std::clamp<Size>(sort->memory / kLeastRead, kLeastRunsAtOnce, kMostRunsAtOnce);
    while (sort->runs.n > at_once)
    {
        int n = std::min(at_once, sort->runs.n - at_once + 1);
        begin_merge(sort, n);
        create_file(sort);
        while (Entry entry = next_merged(sort))
            write_bytes(sort, entry, entry_size(entry));
        pfree(sort->source);
        sort->runs.n -= n;
        memmove(sort->runs.run, sort->runs.run + n, sort->runs.n * sizeof(Run));
        append(sort, &sort->runs, &Runs::run, Run{sort->files.n - 1, 0, sort->file_size});
    }
}

static void merge_runs(Sort *sort)
{
    MemoryContext old = MemoryContextSwitchTo(sort->context);
    reduce_runs(sort);
    begin_merge(sort, sort->runs.n);
    MemoryContextSwitchTo(old);
}

// ---- what callers see

void perform_sort(Sort *sort)
{
    if (sort->runs.n == 0)
    {
        sort->items = sort_in_memory(sort);
        return;
    }
    spill(sort);
    free_memory(sort);
    merge_runs(sort);
}

// A participant's file ends with the list of its runs and their number.
void export_sort(Sort *sort)
{
    spill(sort);
    free_memory(sort);
    int64 count = sort->runs.n;
    write_bytes(sort, sort->runs.run, count * sizeof(Run));
    write_bytes(sort, &count, sizeof count);
    BufFileExportFileSet(sort->files.file[0]);
}

Sort *import_sort(const KeySchema &schema, Size memory, FileSet *files, int count)
{
    Sort *sort = make_sort(schema, memory);
    MemoryContext old = MemoryContextSwitchTo(sort->context);
    for (int i = 0; i < count; i++)
    {
        char name[MAXPGPATH];
        snprintf(name, sizeof name, "runs.%d", i);
        BufFile *file = BufFileOpenFileSet(files, name, O_RDONLY, false);
        append(sort, &sort->files, &Files::file, file);
        int64 size = BufFileSize(file), runs;
        read_bytes(file, size - sizeof runs, &runs, sizeof runs);
        int64 at = size - sizeof runs - runs * sizeof(Run);
        for (; runs > 0; runs--, at += sizeof(Run))
        {
            Run run;
            read_bytes(file, at, &run, sizeof run);
            run.file = i;
            append(sort, &sort->runs, &Runs::run, run);
        }
    }
    MemoryContextSwitchTo(old);
    merge_runs(sort);
    return sort;
}

bool next_entry(Sort *sort, Entry *entry, bool *alive)
{
    if (sort->items != nullptr)
    {
        if (sort->next_item == sort->count)
            return false;
        prefetch_entry(sort, sort->items, sort->next_item);
        *entry = sort->items[sort->next_item++].entry;
    }
    else if ((*entry = next_merged(sort)) == nullptr)
        return false;
    *alive = ((*entry)->t_info & kDead) == 0;
    if (unlikely(!*alive))
        (*entry)->t_info &= ~kDead;
    return true;
}
}  // namespace steady
