#include "index/leaf_map.hpp"

#include "index/flags.hpp"

namespace steady
{
namespace
{
// So many descents of a backend in one index make a map worth while.
constexpr int kManyDescents = 8;
constexpr int kMaps = 64;                      // indexes at a time
constexpr int kMostParents = 512;              // of an index
constexpr Size kMostMemory = 8 * 1024 * 1024;  // for all
// One index takes another's place once it was asked for so often in vain.
constexpr int kPatience = 256;

// A page above the leaves. Child i begins at separator i - 1, and the first one where the page does.
struct Parent
{
    WordPlace low, high;
    Word base;  // separators are written as offsets from it, without their `shift` lowest bits
    int shift;
    int separators;  // -1: this page can't be mapped
    Size size;
    Path path;
    uint64 *separator;
    BlockNumber *child;
};

struct Map
{
    Oid index, file;
    int descents;
    int strangers;
    int parents;
    WordPlace low[kMostParents];
    Parent *parent[kMostParents];
};

constinit Map *maps[kMaps];
constinit MemoryContext context = nullptr;
constinit Size memory = 0;

void forget_all()
{
    if (context != nullptr)
        MemoryContextReset(context);
    memset(maps, 0, sizeof maps);
    memory = 0;
}

Map *&place_of(Relation rel)
{
    return maps[RelationGetRelid(rel) % kMaps];
}

bool is_of(const Map *map, Relation rel)
{
    return map->index == RelationGetRelid(rel) && map->file == rel->rd_rel->relfilenode;
}

Map *find_map(Relation rel)
{
    Map *map = place_of(rel);
    if (map == nullptr)
        return nullptr;
    if (likely(is_of(map, rel)))
    {
        map->strangers = 0;
        return map;
    }
    return nullptr;
}

void drop(Map *map, int from, int to)
{
    for (int i = from; i < to; i++)
    {
        memory -= map->parent[i]->size;
        pfree(map->parent[i]);
    }
    memmove(map->low + from, map->low + to, (map->parents - to) * sizeof *map->low);
    memmove(map->parent + from, map->parent + to, (map->parents - to) * sizeof *map->parent);
    map->parents -= to - from;
}

// An empty map in memory that is there for it, or nullptr while another index is better served there.
Map *make_map(Relation rel)
{
    if (context == nullptr)
        context = AllocSetContextCreate(TopMemoryContext, "steady leaf maps", ALLOCSET_DEFAULT_SIZES);
    if (memory > kMostMemory)
        forget_all();
    Map *&map = place_of(rel);
    if (map == nullptr)
    {
        map = static_cast<Map *>(MemoryContextAlloc(context, sizeof(Map)));
        memory += sizeof(Map);
        map->parents = 0;
    }
    else if (++map->strangers < kPatience)
        return nullptr;
    drop(map, 0, map->parents);
    map->index = RelationGetRelid(rel);
    map->file = rel->rd_rel->relfilenode;
    map->descents = map->strangers = 0;
    return map;
}

// The offset without its lowest bits; one that is too large for the type is larger than any separator.
uint64 shorten(const Word &offset, int shift)
{
    uint64 part[4] = {offset.low, offset.mid, offset.high, 0};
    int at = shift / 64, bits = shift % 64;
    auto word = [&](int i) {
        uint64 low = i < 3 ? part[i] : 0, above = i + 1 < 3 ? part[i + 1] : 0;
        return bits == 0 ? low : low >> bits | above << (64 - bits);
    };
    return word(at + 1) == 0 && word(at + 2) == 0 ? word(at) : PG_UINT64_MAX;
}

int bit_width(const Word &w)
{
    return w.high != 0 ? 128 + std::bit_width(w.high) : w.mid != 0 ? 64 + std::bit_width(w.mid) : std::bit_width(w.low);
}

// The number of the first `n` values that are not above `value`.
int count_up_to(const uint64 *values, int n, uint64 value)
{
    const uint64 *first = values;
    while (n > 1)
    {
        int half = n / 2;
        first += first[half - 1] <= value ? half : 0;
        n -= half;
    }
    return static_cast<int>(first - values) + (n == 1 && *first <= value);
}

bool place_of_pivot(const KeySchema &schema, Entry pivot, WordPlace *place)
{
    SearchKey key;
    key_from_pivot(schema, pivot, &key);
    return word_place(*schema.words, key, place);
}
}  // namespace

void forget_map(Relation rel)
{
    if (Map *map = find_map(rel))
        drop(map, 0, map->parents);
}

BlockNumber mapped_leaf(const Tree &tree, const WordPlace &place, Path *path)
{
    const Map *map = find_map(tree.rel);
    tree.map_failed = true;
    if (map == nullptr)
        return InvalidBlockNumber;
    int after = static_cast<int>(std::upper_bound(map->low, map->low + map->parents, place) - map->low);
    if (after == 0)
        return InvalidBlockNumber;
    const Parent &p = *map->parent[after - 1];
    if (place >= p.high)
        return InvalidBlockNumber;
    tree.map_failed = false;
    if (p.separators < 0)
        return InvalidBlockNumber;
    int i = place.word < p.base ? 0 : count_up_to(p.separator, p.separators, shorten(place.word - p.base, p.shift));
    *path = p.path;
    path->block[0] = p.child[i];
    return p.child[i];
}

Buffer find_mapped_leaf(const Tree &tree, const SearchKey &key, Path *path, int *slot)
{
    WordPlace place;
    if (key.n == 0 || !word_place(*tree.schema->words, key, &place))
        return InvalidBuffer;
    BlockNumber block = mapped_leaf(tree, place, path);
    if (block == InvalidBlockNumber || !page_exists(tree.rel, block))
        return InvalidBuffer;
    stop_point("map-read");
    Buffer buf = lock_page(tree.rel, block, Lock::share);
    Page page = page_of(buf);
    if (likely(page_fault(page, block) == nullptr && is_leaf(page) && !has_flag(page, kDeleted) &&
               Codec::is_word(page)))
    {
        *slot = WordCodec::find(page, place);
        // Entries, or what was one, on both sides of the place are within the page's range, and so is the place.
        bool proven = (*slot > 0 || !Codec::below(*tree.schema, key, page)) &&
                      (*slot < WordCodec::slots(page) || !Codec::beyond(*tree.schema, key, page));
        tree.map_failed = !proven && guarded("map_fences");
        if (!tree.map_failed && !(has_zone(page) && all_stamped(page)))
            return buf;
    }
    else
        tree.map_failed = true;
    UnlockReleaseBuffer(buf);
    return InvalidBuffer;
}

void copy_parent(const Tree &tree, Page page, const Path &path)
{
    const KeySchema &schema = *tree.schema;
    tree.map_failed = false;
    if (schema.words == nullptr || has_flag(page, kLowUnknown) || read_meta(tree.rel, false).kind != PageKind::word)
        return;
    Map *map = find_map(tree.rel);
    if (map == nullptr && (map = make_map(tree.rel)) == nullptr)
        return;
    if (++map->descents < kManyDescents)
        return;

    WordPlace low{}, high{{PG_UINT64_MAX, PG_UINT64_MAX, PG_UINT64_MAX}, PG_UINT64_MAX};
    Entry low_fence = Codec::low(page), high_fence = Codec::high(page);
    if ((low_fence != nullptr && !place_of_pivot(schema, low_fence, &low)) ||
        (high_fence != nullptr && !place_of_pivot(schema, high_fence, &high)))
        return;
    // What it has to itself now, older copies are wrong about.
    int at = static_cast<int>(std::lower_bound(map->low, map->low + map->parents, low) - map->low), end = at;
    while (end < map->parents && map->low[end] < high)
        end++;
    drop(map, at, end);
    int n = 0, live = InnerCodec::live(page);
    if (map->parents == kMostParents || memory > kMostMemory || live == 0)
        return;

    Size size = MAXALIGN(sizeof(Parent)) + live * (sizeof(uint64) + sizeof(BlockNumber));
    auto p = static_cast<Parent *>(MemoryContextAlloc(context, size));
    p->separator = reinterpret_cast<uint64 *>(reinterpret_cast<char *>(p) + MAXALIGN(sizeof(Parent)));
    p->child = reinterpret_cast<BlockNumber *>(p->separator + live);
    p->low = low;
    p->high = high;
    p->path = path;
    p->size = size;
    // The first separator is smaller than anything; the second and the last tell how they are written.
    int slots = InnerCodec::slots(page), first = InnerCodec::next(page, 0),
        last = InnerCodec::previous(page, slots - 1);
    p->base = {};
    p->shift = 0;
    for (int slot = first; slot < slots; slot = InnerCodec::next(page, slot + 1))
    {
        Entry pivot = InnerCodec::at(page, slot);
        WordPlace place{}, largest;
        if (n > 0 && (!place_of_pivot(schema, pivot, &place) || place.tid != 0))
            break;  // equal keys on more than one leaf: TIDs would have to be compared
        if (n == 1)
        {
            p->base = place.word;
            if (!place_of_pivot(schema, InnerCodec::at(page, last), &largest) || largest.word < p->base)
                break;
            p->shift = std::max(0, bit_width(largest.word - p->base) - 64);
        }
        if (n > 0)
            p->separator[n - 1] = shorten(place.word - p->base, p->shift);
        p->child[n++] = child_of(pivot);
    }
    p->separators = n == live ? n - 1 : -1;
    memmove(map->low + at + 1, map->low + at, (map->parents - at) * sizeof *map->low);
    memmove(map->parent + at + 1, map->parent + at, (map->parents - at) * sizeof *map->parent);
    map->low[at] = low;
    map->parent[at] = p;
    map->parents++;
    memory += size;
}
}  // namespace steady
